package api

import (
	"context"
	"net/http"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// OfResource is the path of a resource of a session.
type OfResource struct {
	OfSession
	Resource string `path:"resource" example:"box" doc:"The resource."`
}

func (a resourceHandlers) register() {
	missing := []int{http.StatusNotFound}
	read(a.API, operation{
		id: "list-resources", path: "/v1/sessions/{id}/resources", policy: reads, summary: "List the resources of a session, in the order of their first registration", errors: missing,
	}, a.listResources)
	read(a.API, operation{
		id: "get-resource", path: "/v1/sessions/{id}/resources/{resource}", policy: reads, summary: "Show a resource of a session", errors: missing,
	}, func(ctx context.Context, in *OfResource) (*single[engine.SessionResource], error) {
		return singleOf(a.cfg.Engine.Resources().Get(ctx, in.ID, in.Resource))
	})
	erase(a.API, operation{
		id: "release-resource", path: "/v1/sessions/{id}/resources/{resource}", policy: approves,
		summary: "Mark a resource as released. Nothing is torn down, and its lease is no longer cleaned up", errors: missing, route: route{returnsResource: true},
	}, func(ctx context.Context, in *OfResource) (*single[engine.SessionResource], error) {
		return singleOf(a.cfg.Engine.Resources().Release(ctx, in.ID, in.Resource, requestOf(ctx).actor))
	})
}

func (a resourceHandlers) listResources(ctx context.Context, in *struct {
	OfSession
	Kind   string                 `query:"kind" doc:"Only entries of this kind."`
	Status perdure.ResourceStatus `query:"status" enum:"active,completed,failed,released" doc:"Only entries with this status."`
	Paged
}) (*page[engine.SessionResource], error) {
	return pageOfAppended(a.API, in.Paged, appendedList[engine.SessionResource]{
		name: "resources " + string(in.ID) + " " + string(in.Status) + " " + in.Kind,
		all:  func() ([]engine.SessionResource, error) { return a.cfg.Engine.Resources().List(ctx, in.ID) },
		match: func(r engine.SessionResource) bool {
			return (in.Kind == "" || r.Kind == in.Kind) && (in.Status == "" || r.Status == in.Status)
		},
		id: func(r engine.SessionResource) string { return r.ID },
	})
}
