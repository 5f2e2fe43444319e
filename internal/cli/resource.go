package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

type resourceCommand struct {
	List    resourceList    `cmd:"" help:"List what stands beside a session: sandboxes, browsers, what was leased."`
	Show    resourceShow    `cmd:"" help:"Show what stands beside a session."`
	Release resourceRelease `cmd:"" help:"Say that a resource is gone. Nothing is taken down by it, and a lease is not cleaned up any more."`
}

type resourceList struct {
	Session string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Kind    string `help:"Only those of this kind." placeholder:"KIND"`
	Status  string `help:"Only those with this status: active, completed, failed or released." placeholder:"STATUS" enum:",active,completed,failed,released" default:""`
	output
}

// Run lists resources.
func (c *resourceList) Run(ctx context.Context, a *app) error {
	return a.inSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		all, err := eng.Resources(ctx, s.ID)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(r engine.SessionResource) bool {
			return c.Kind != "" && r.Kind != c.Kind || c.Status != "" && string(r.Status) != c.Status
		})
		now := a.now()
		return listing[engine.SessionResource]{
			noun: "resources", head: []string{"RESOURCE", "KIND", "STATUS", "NAME", "TASK", "LEASE"},
			name: func(r engine.SessionResource) string { return r.ID },
			row: func(r engine.SessionResource) []cell {
				return []cell{{r.ID, bold}, {text: r.Kind}, {string(r.Status), resourceColor(r.Status)}, {text: r.Name}, {text: string(r.Task)}, {text: leaseOf(r, now)}}
			},
		}.print(ctx, a, c.output, all)
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

// leaseOf is how the lease of a resource stands; empty: it has none.
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
	Session  string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Resource string `arg:"" help:"Its id, or a unique beginning of it, or its name."`
	output
}

// Run shows a resource.
func (c *resourceShow) Run(ctx context.Context, a *app) error {
	return a.inSession(ctx, c.Session, true, func(eng Engine, s engine.Session) error {
		r, err := a.resourceNamed(ctx, eng, s, c.Resource)
		if err != nil {
			return err
		}
		return c.show(ctx, a, shown{r.ID, r, func() { a.fields(a.resourceFields(r)...) }})
	})
}

func (a *app) resourceFields(r engine.SessionResource) []field {
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
		{"made", cell{text: moment(r.CreatedAt, now)}},
		{"changed", cell{text: moment(r.UpdatedAt, now)}},
	}
}

// resourceNamed finds what stands beside a session.
func (a *app) resourceNamed(ctx context.Context, eng Engine, s engine.Session, typed string) (engine.SessionResource, error) {
	all, err := eng.Resources(ctx, s.ID)
	if err != nil {
		return engine.SessionResource{}, err
	}
	var candidates []candidate
	for _, r := range all {
		candidates = append(candidates, candidate{id: r.ID, named: r.Name, about: r.Kind + ", " + string(r.Status)})
	}
	id, err := a.kindBy("resource", "resource list", string(s.ID)).choose(typed, candidates)
	if err != nil {
		return engine.SessionResource{}, err
	}
	return all[slices.IndexFunc(all, func(r engine.SessionResource) bool { return r.ID == id })], nil
}

type resourceRelease struct {
	Session  string `arg:"" help:"Its id, or a unique beginning of it, or its title, or last."`
	Resource string `arg:"" help:"Its id, or a unique beginning of it, or its name."`
	DryRun   bool   `help:"Only say what would be done."`
	Yes      bool   `short:"y" help:"Do not ask, also on a terminal."`
	output
}

// Run says that a resource is gone.
func (c *resourceRelease) Run(ctx context.Context, a *app) error {
	if err := c.suits(engine.SessionResource{}); err != nil {
		return err
	}
	return a.inSession(ctx, c.Session, c.DryRun, func(eng Engine, s engine.Session) error {
		r, err := a.resourceNamed(ctx, eng, s, c.Resource)
		if err != nil {
			return err
		}
		what := a.line(r.ID+" ("+r.Name+")", cellChars)
		if c.DryRun {
			a.say("would say that %s is gone", what)
			return nil
		}
		if err := a.confirm(ctx, c.Yes, "is "+what+" gone? It will not be cleaned up any more"); err != nil {
			return err
		}
		if r, err = eng.ReleaseResource(ctx, s.ID, r.ID, operator); err != nil {
			return err
		}
		a.say("%s is released", what)
		return c.quietly(ctx, a, r.ID, r)
	})
}
