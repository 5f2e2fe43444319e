package remote

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
)

// page is a list as it is answered.
type page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
}

// pageSize is the longest page that the wire allows.
const pageSize = 200

// whole reads a list that has no pages.
func whole[T any](ctx context.Context, e *Engine, r request) ([]T, error) {
	var got page[T]
	_, err := e.call(ctx, r, &got)
	if len(got.Items) == 0 {
		return nil, err // none, as the engine in this process says it
	}
	return got.Items, err
}

// list reads a list to its end, or up to most items; most 0 means all. A page that is too big is asked for
// again in smaller ones.
func list[T any](ctx context.Context, e *Engine, r request, most int) ([]T, error) {
	var all []T
	if r.query == nil {
		r.query = url.Values{}
	}
	if r.place == "" {
		r.place = "cursor"
	}
	for size := pageSize; ; {
		if most > 0 {
			size = min(size, most-len(all))
		}
		r.query.Set("limit", strconv.Itoa(size))
		var got page[T]
		_, err := e.call(ctx, r, &got)
		if errors.Is(err, errTooBig) && size > 1 {
			size /= 2
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, got.Items...)
		if got.Next == "" || most > 0 && len(all) >= most {
			return all, nil
		}
		if got.Next == r.query.Get(r.place) {
			return nil, fmt.Errorf("%s: the server's list does not go on: it gave the same cursor twice", r.what)
		}
		r.query.Set(r.place, got.Next)
	}
}
