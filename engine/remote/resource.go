package remote

import (
	"context"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

func resourcePath(id perdure.SessionID, resource string) string {
	return sessionPath(id) + "/resources/" + keySegment(resource)
}

func (e engineResources) List(ctx context.Context, id perdure.SessionID) ([]engine.SessionResource, error) {
	return list[engine.SessionResource](ctx, e.Engine, request{
		what: "resources of " + string(id), path: sessionPath(id) + "/resources",
	}, 0)
}

func (e engineResources) Get(
	ctx context.Context, id perdure.SessionID, resource string,
) (r engine.SessionResource, err error) {
	if resource == "" {
		return r, fmt.Errorf("resource of %s: %w: it has no name", id, perdure.NotFound)
	}
	_, err = e.call(ctx, request{
		what: fmt.Sprintf("resource %q of %s", resource, id), path: resourcePath(id, resource),
	}, &r)
	return r, err
}

// Release records that a resource no longer exists. A retry gets the same response.
func (e engineResources) Release(
	ctx context.Context, id perdure.SessionID, resource, by string,
) (r engine.SessionResource, err error) {
	if resource == "" {
		return r, fmt.Errorf("resource of %s: %w: it has no name", id, perdure.NotFound)
	}
	_, err = e.call(ctx, request{
		what: fmt.Sprintf("release resource %q of %s", resource, id), path: resourcePath(id, resource), remove: true,
		actor: by,
	}, &r)
	return r, err
}
