package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/agent"
	"github.com/perdure/perdure/engine"
)

// OfHarness is the path of a harness.
type OfHarness struct {
	ID string `path:"harness" example:"house" doc:"The id of a harness, or the name of a harness that is not deleted."`
}

// newHarness is the body of a harness's write: its overlay, and the parent on which it is based.
type newHarness struct {
	ID     perdure.HarnessID `json:"id,omitempty" doc:"For a new harness: the id, for callers that generate ids."`
	Parent perdure.HarnessID `json:"parent_id,omitempty" doc:"The harness from which this one inherits. Without it, it is a root."`
	agent.Overlay
}

// harnessOperations registers the operations on harnesses.
func (a harnessHandlers) register() {
	missing := []int{http.StatusNotFound}
	read(a.API, operation{id: "list-harnesses", path: "/v1/harnesses", policy: reads, summary: "List the harnesses from which agents can inherit"}, a.listHarnesses)
	read(a.API, operation{id: "get-harness", path: "/v1/harnesses/{harness}", policy: reads, summary: "Show a harness", errors: missing},
		func(ctx context.Context, in *OfHarness) (*single[engine.HarnessEntry], error) {
			return singleOf(a.cfg.Engine.Harnesses().Get(ctx, in.ID))
		})
	read(a.API, operation{
		id: "list-harness-versions", path: "/v1/harnesses/{harness}/versions", policy: reads, summary: "List the versions of a harness, newest first", errors: missing,
	}, a.listHarnessVersions)
	replace(a.API, operation{
		id: "put-harness", path: "/v1/harnesses/{harness}", policy: administers, summary: "Create or replace a harness",
		errors: append(missing, http.StatusPreconditionRequired), route: route{checksConditions: true, returnsResource: true},
	}, body[newHarness]{example: newHarness{Overlay: agent.Overlay{SystemPrompt: "Say what you are not sure of."}}}, a.putHarness)
	erase(a.API, operation{
		id: "delete-harness", path: "/v1/harnesses/{harness}", policy: administers, summary: "Delete a harness from which nothing inherits, leaving a tombstone",
		errors: append(missing, http.StatusConflict), route: route{checksConditions: true},
	}, a.deleteHarness)
}

func (a harnessHandlers) listHarnesses(ctx context.Context, in *struct {
	Status string `query:"status" enum:"active,archived,deleted" doc:"Only harnesses with this status."`
	Paged
}) (*page[engine.HarnessEntry], error) {
	return pageOfAppended(a.API, in.Paged, appendedList[engine.HarnessEntry]{
		name:  orgPrefix(ctx) + "harnesses " + in.Status,
		all:   func() ([]engine.HarnessEntry, error) { return a.cfg.Engine.Harnesses().List(ctx) },
		match: func(one engine.HarnessEntry) bool { return in.Status == "" || one.Status == in.Status },
		id:    func(one engine.HarnessEntry) string { return string(one.ID) },
	})
}

func (a harnessHandlers) listHarnessVersions(ctx context.Context, in *struct {
	OfHarness
	Paged
}) (*page[engine.HarnessEntry], error) {
	return pageOfAppended(a.API, in.Paged, appendedList[engine.HarnessEntry]{
		name:  orgPrefix(ctx) + "versions of harness " + in.ID,
		all:   func() ([]engine.HarnessEntry, error) { return a.cfg.Engine.Harnesses().Versions(ctx, in.ID, 0) },
		match: func(engine.HarnessEntry) bool { return true },
		id:    func(one engine.HarnessEntry) string { return strconv.FormatInt(one.Version, 10) },
	})
}

// putHarness writes a harness.
func (a harnessHandlers) putHarness(ctx context.Context, in *struct {
	OfHarness
	Conditions
}, b newHarness) (*single[engine.HarnessEntry], error) {
	if err := b.Check(); err != nil {
		return nil, wrongAgent(err)
	}
	w := engine.HarnessWrite{Name: in.ID, ID: b.ID, Parent: b.Parent, Overlay: b.Overlay}
	if w.ID == "" {
		w.ID = newID[perdure.HarnessID](ctx)
	}
	put, err := a.storedHarnesses().put(ctx, putRequest[engine.HarnessEntry]{name: in.ID, id: string(w.ID), Conditions: in.Conditions, put: func(version int64) (engine.HarnessEntry, error) {
		w.Version = version
		return a.cfg.Engine.Harnesses().Put(ctx, w)
	}})
	return &single[engine.HarnessEntry]{put}, err
}

func (a harnessHandlers) storedHarnesses() resourceHandler[engine.HarnessEntry] {
	return resourceHandler[engine.HarnessEntry]{
		noun: "harness", current: a.cfg.Engine.Harnesses().Get, isID: isID[perdure.HarnessID],
		head: func(one engine.HarnessEntry) storedHead {
			return storedHead{id: string(one.ID), version: one.Version, stored: true, deleted: one.Status == string(agent.Deleted), written: one.UpdatedAt}
		},
	}
}

// deleteHarness replaces a harness with a tombstone.
func (a harnessHandlers) deleteHarness(ctx context.Context, in *struct {
	OfHarness
	IfMatch string `header:"If-Match" doc:"Only if the harness still has this ETag; * matches any."`
}) (*nothing, error) {
	return a.storedHarnesses().delete(ctx, deleteRequest{name: in.ID, ifMatch: in.IfMatch, delete: func(version int64) error { return a.cfg.Engine.Harnesses().Delete(ctx, in.ID, version) }})
}
