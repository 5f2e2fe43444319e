package memory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure"
)

// row is a value with its position in the order in which rows were added.
type row[V any] struct {
	position int64
	value    V
}

// inOrder returns the values of rows in the order in which they were added. Without rows it returns
// nil.
func inOrder[V any](rows []row[V]) []V {
	slices.SortFunc(rows, func(a, b row[V]) int { return cmp.Compare(a.position, b.position) })
	var values []V
	for _, r := range rows {
		values = append(values, r.value)
	}
	return values
}

// first returns at most limit items; 0 means all.
func first[V any](items []V, limit int) []V {
	if limit > 0 && limit < len(items) {
		return items[:limit]
	}
	return items
}

// micro returns a time as a store keeps it: UTC, whole microseconds.
func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// clone copies bytes. An empty slice becomes nil.
func clone[B ~[]byte](b B) B {
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}

// stored returns a record as its JSON has it. It shares nothing with v. Invalid: it cannot be
// encoded.
func stored[T any](v T) (T, error) {
	var s T
	body, err := encode(v)
	if err != nil {
		return s, err
	}
	err = json.Unmarshal(body, &s)
	return s, err
}

func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("%w record: %w", perdure.Invalid, err)
	}
	return out.Bytes(), nil
}

// pointerTo copies what p points to.
func pointerTo[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
