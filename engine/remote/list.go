package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/perdure/perdure/engine"
)

// page is one page of a list response.
type page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"`
}

// pageSize is the longest page that the API allows.
const pageSize = 200

// unpaged reads a list without pages.
func unpaged[T any](ctx context.Context, e *Engine, r request) ([]T, error) {
	var got page[T]
	_, err := e.call(ctx, r, &got)
	if len(got.Items) == 0 {
		return nil, err // nil instead of an empty list, like engine/local
	}
	return got.Items, err
}

// fetch sends a request and returns the decoded response.
func fetch[T any](ctx context.Context, e *Engine, r request) (got T, err error) {
	_, err = e.call(ctx, r, &got)
	return got, err
}

// list reads a list to its end, or up to most items; 0 means all. If a page is too large, list
// requests smaller ones.
func list[T any](ctx context.Context, e *Engine, r request, most int) ([]T, error) {
	if err := engine.CheckLimit(most); err != nil {
		return nil, fmt.Errorf("%s: %w", r.what, err)
	}
	var all []T
	if r.query == nil {
		r.query = url.Values{}
	}
	r.cursorParam = cmp.Or(r.cursorParam, "cursor")
	for size := pageSize; ; {
		if most > 0 {
			size = min(size, most-len(all))
		}
		r.query.Set("limit", strconv.Itoa(size))
		var got page[T]
		_, err := e.call(ctx, r, &got)
		if errors.Is(err, errTooLarge) && size > 1 {
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
		if got.Next == r.query.Get(r.cursorParam) {
			return nil, fmt.Errorf("%s: the server's list does not advance: it sent the same cursor twice", r.what)
		}
		r.query.Set(r.cursorParam, got.Next)
	}
}
