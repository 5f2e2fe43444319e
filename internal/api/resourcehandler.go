package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/perdure/perdure"
)

// resourceHandler implements PUT and DELETE for agents and harnesses. It reads the stored version
// to check the conditions of the request, and the engine compares the version again in the commit.
type resourceHandler[T any] struct {
	noun    string
	current func(ctx context.Context, id string) (T, error)
	head    func(T) storedHead
	isID    func(text string) bool
}

// storedHead is the part of a stored resource that a write needs.
type storedHead struct {
	id      string
	version int64
	stored  bool // stored, and so writable
	deleted bool
	written time.Time
}

func isID[T perdure.ID](text string) bool {
	_, err := perdure.ParseID[T](text)
	return err == nil
}

// putRequest is one PUT.
type putRequest[T any] struct {
	Conditions
	name string // or id
	id   string // for a new resource
	put  func(version int64) (T, error)
}

func (k resourceHandler[T]) put(ctx context.Context, p putRequest[T]) (zero T, err error) {
	old, tag, err := k.read(ctx, p.name)
	if err != nil {
		return zero, err
	}
	if tag == "" && k.isID(p.name) {
		return zero, fmt.Errorf("put %s %s: %w", k.noun, p.name, perdure.NotFound)
	}
	head, version := k.head(old), int64(0)
	made := tag != "" && head.id == p.id && head.version == 1 // created by an earlier attempt of this request
	switch {
	case tag != "" && !made && requestOf(ctx).repeated && p.superseded(ctx, head.written):
		return old, nil
	case tag != "" && !made && head.stored && !p.given():
		return zero, &Problem{Status: http.StatusPreconditionRequired, Detail: "the " + k.noun + " already exists; send If-Match with the ETag that you read"}
	case tag != "" && !made && head.stored || tag == "":
		if err := p.allow(tag); err != nil {
			return zero, err
		}
		version = head.version
	}
	put, err := p.put(version)
	if !errors.Is(err, perdure.Conflict) || !p.given() {
		return put, err
	}
	if _, tag, failed := k.read(ctx, p.name); failed != nil { // the condition may fail by now
		return zero, failed
	} else if failed := p.allow(tag); failed != nil {
		return zero, failed
	}
	return zero, err
}

// read returns the resource with its ETag, which is empty if the resource does not exist.
func (k resourceHandler[T]) read(ctx context.Context, id string) (one T, tag string, err error) {
	one, err = k.current(ctx, id)
	switch {
	case errors.Is(err, perdure.NotFound):
		return one, "", nil
	case err != nil:
		return one, "", err
	}
	tag, err = tagOfJSON(one)
	return one, tag, err
}

// deleteRequest is one DELETE.
type deleteRequest struct {
	name    string // or id
	ifMatch string
	delete  func(version int64) error
}

// delete deletes a resource. If an earlier attempt under the same key was started and the resource
// is already deleted, that counts as success.
func (k resourceHandler[T]) delete(ctx context.Context, e deleteRequest) (*nothing, error) {
	version := int64(0)
	old, tag, err := k.read(ctx, e.name)
	switch {
	case err != nil:
		return nil, err
	case requestOf(ctx).repeated && k.head(old).deleted:
		return &nothing{}, nil
	case e.ifMatch != "" && tag != "":
		if err := checkIfMatch(e.ifMatch, tag); err != nil {
			return nil, err
		}
		version = k.head(old).version
	}
	err = e.delete(version)
	if errors.Is(err, perdure.Conflict) && version != 0 {
		// Unchanged: the conflict has another reason.
		if now, _, failed := k.read(ctx, e.name); failed == nil && k.head(now).version == version {
			return nil, err
		}
		err = failedCondition("it has changed in the meantime")
	}
	return goneIfRepeated(ctx, err)
}
