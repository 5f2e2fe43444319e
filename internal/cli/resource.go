package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type resourceCommand struct {
	List    resourceList    `cmd:"" aliases:"ls" help:"List the resources of a session, newest first: sandboxes, browsers and leases."`
	Show    resourceShow    `cmd:"" help:"Show a resource."`
	Release resourceRelease `cmd:"" help:"Mark a resource as released. Nothing is shut down, and its lease is no longer cleaned up."`
}

type resourceList struct {
	Session string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Kind    string `help:"Only resources of this kind." placeholder:"KIND"`
	Status  string `help:"Only resources with this status: active, completed, failed or released." placeholder:"STATUS" enum:",active,completed,failed,released" default:""`
	listFlags
}

// Run lists resources.
func (c *resourceList) Run(ctx context.Context, a *app) error {
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		all, err := eng.Resources().List(ctx, s.ID)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(r engine.SessionResource) bool {
			return c.Kind != "" && r.Kind != c.Kind || c.Status != "" && string(r.Status) != c.Status
		})
		now := a.now()
		if all, err = newestWithin(c.listFlags, now.Time, all, func(r engine.SessionResource) time.Time { return r.CreatedAt }); err != nil {
			return err
		}
		return outputList[engine.SessionResource]{
			noun: "resources", head: []string{"RESOURCE", "KIND", "STATUS", "NAME", "TASK", "LEASE"},
			name: func(r engine.SessionResource) string { return r.ID },
			row: func(r engine.SessionResource) []cell {
				return []cell{{r.ID, bold}, {text: r.Kind}, {string(r.Status), resourceColor(r.Status)}, {text: r.Name},
					{text: string(r.Task)}, {text: leaseOf(r, now)}}
			},
		}.print(ctx, a, c.outputFlags, all)
	})
}

func resourceColor(s perdure.ResourceStatus) color {
	switch s {
	case perdure.ResourceActive:
		return green
	case perdure.ResourceFailed:
		return red
	}
	return dim
}

// leaseOf describes the lease of a resource; empty: it has none.
func leaseOf(r engine.SessionResource, now clock) string {
	switch r.Lease {
	case "":
		return ""
	case perdure.LeaseActive:
		return "until " + moment(r.ExpiresAt, now)
	}
	return string(r.Lease)
}

type resourceShow struct {
	Session  string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Resource string `arg:"" help:"Id, unique id prefix, or name."`
	outputFlags
}

// Run shows a resource.
func (c *resourceShow) Run(ctx context.Context, a *app) error {
	return a.onSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		r, err := resourceText{a}.resourceNamed(ctx, eng, s, c.Resource)
		if err != nil {
			return err
		}
		return c.show(ctx, a, outputObject{r.ID, r, func() { a.fields(resourceText{a}.resourceFields(r)...) }})
	})
}

func (a resourceText) resourceFields(r engine.SessionResource) []field {
	now := a.now()
	attempts := ""
	if r.Attempts > 0 {
		attempts = fmt.Sprint(r.Attempts)
	}
	return []field{
		{"resource", cell{r.ID, bold}},
		{"kind", cell{text: r.Kind}},
		{"name", cell{text: r.Name}},
		{"status", cell{string(r.Status), resourceColor(r.Status)}},
		{"task", cell{text: string(r.Task)}},
		{"lease", cell{text: leaseOf(r, now)}},
		{"attempts", cell{text: attempts}},
		{"last error", cell{r.LastError, red}},
		{"metadata", cell{text: string(r.Metadata)}},
		{"created", cell{text: moment(r.CreatedAt, now)}},
		{"changed", cell{text: moment(r.UpdatedAt, now)}},
	}
}

// resourceNamed finds a resource by what the user typed.
func (a resourceText) resourceNamed(ctx context.Context, eng Engine, s engine.Session,
	typed string) (engine.SessionResource, error) {
	all, err := eng.Resources().List(ctx, s.ID)
	if err != nil {
		return engine.SessionResource{}, err
	}
	return pick(a.kindBy("resource", "resource list", string(s.ID)), typed, all, func(r engine.SessionResource) candidate {
		return candidate{id: r.ID, name: r.Name, description: r.Kind + ", " + string(r.Status)}
	})
}

type resourceRelease struct {
	Session  string `arg:"" help:"Session: id, unique id prefix, title, or last."`
	Resource string `arg:"" help:"Id, unique id prefix, or name."`
	deleteFlags
}

// Run marks a resource as released.
func (c *resourceRelease) Run(ctx context.Context, a *app) error {
	return c.flags().onSession(ctx, a, c.Session, engine.SessionResource{}, func(eng Engine, s engine.Session) error {
		r, err := resourceText{a}.resourceNamed(ctx, eng, s, c.Resource)
		if err != nil {
			return err
		}
		what := a.oneLine(r.ID+" ("+r.Name+")", cellChars)
		if ok, err := c.confirmed(ctx, a, "release "+what, "release "+what+"? It will no longer be cleaned up"); !ok {
			return err
		}
		if r, err = eng.Resources().Release(ctx, s.ID, r.ID, operator); err != nil {
			return err
		}
		a.message("released %s", what)
		return c.showForPrograms(ctx, a, r.ID, r)
	})
}
