package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/perdure/perdure"
)

// keeper is how agents and harnesses are written. What a request compares it has read itself, and the engine compares the version
// again in the commit.
type keeper[T any] struct {
	noun string
	now  func(ctx context.Context, id string) (T, error)
	head func(T) keptHead
	isID func(text string) bool
}

// keptHead is what a write has to know of what is there.
type keptHead struct {
	id      string
	version int64
	kept    bool // in the store: else it cannot be written
	deleted bool
	written time.Time
}

func isID[T perdure.ID](text string) bool {
	_, err := perdure.ParseID[T](text)
	return err == nil
}

// putting is one PUT.
type putting[T any] struct {
	Conditions
	name string // or id
	id   string // of one that is new
	put  func(version int64) (T, error)
}

func (k keeper[T]) put(ctx context.Context, p putting[T]) (none T, err error) {
	old, tag, err := k.read(ctx, p.name)
	if err != nil {
		return none, err
	}
	if tag == "" && k.isID(p.name) {
		return none, fmt.Errorf("put %s %s: %w", k.noun, p.name, perdure.NotFound)
	}
	head, version := k.head(old), int64(0)
	made := tag != "" && head.id == p.id && head.version == 1 // by this request, begun before
	switch {
	case tag != "" && !made && requestOf(ctx).again && p.superseded(ctx, head.written):
		return old, nil
	case tag != "" && !made && head.kept && !p.given():
		return none, &Problem{Status: http.StatusPreconditionRequired, Detail: "there is such a " + k.noun + ": send If-Match with the ETag that you read"}
	case tag != "" && !made && head.kept || tag == "":
		if err := p.allow(tag); err != nil {
			return none, err
		}
		version = head.version
	}
	put, err := p.put(version)
	if !errors.Is(err, perdure.Conflict) || !p.given() {
		return put, err
	}
	if _, tag, failed := k.read(ctx, p.name); failed != nil { // the condition may fail by now
		return none, failed
	} else if failed := p.allow(tag); failed != nil {
		return none, failed
	}
	return none, err
}

// read returns what is there with its ETag, which is empty when there is nothing.
func (k keeper[T]) read(ctx context.Context, id string) (one T, tag string, err error) {
	one, err = k.now(ctx, id)
	switch {
	case errors.Is(err, perdure.NotFound):
		return one, "", nil
	case err != nil:
		return one, "", err
	}
	tag, err = tagOfJSON(one)
	return one, tag, err
}

// erasing is one DELETE.
type erasing struct {
	name    string // or id
	ifMatch string
	erase   func(version int64) error
}

// erase takes one that is deleted for one that it deleted before, when that was begun under the same key.
func (k keeper[T]) erase(ctx context.Context, e erasing) (*nothing, error) {
	version := int64(0)
	old, tag, err := k.read(ctx, e.name)
	switch {
	case err != nil:
		return nil, err
	case requestOf(ctx).again && k.head(old).deleted:
		return &nothing{}, nil
	case e.ifMatch != "" && tag != "":
		if err := allowed(e.ifMatch, tag); err != nil {
			return nil, err
		}
		version = k.head(old).version
	}
	err = e.erase(version)
	if errors.Is(err, perdure.Conflict) && version != 0 {
		if now, _, failed := k.read(ctx, e.name); failed == nil && k.head(now).version == version { // it did not change: something else is in the way
			return nil, err
		}
		err = failedCondition("it was changed meanwhile")
	}
	return gone(ctx, err)
}
