package local

import (
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect"
)

// TestBulksOfOrgs: the bulks of one org, however many, leave those of another known.
func TestBulksOfOrgs(t *testing.T) {
	t.Parallel()
	var l bulks
	quiet, noisy := engine.For(t.Context(), engine.Owner{Org: "quiet"}), engine.For(t.Context(), engine.Owner{Org: "noisy"})
	note := func(org string) perdure.BulkID {
		ctx, id := quiet, effect.NewID[perdure.BulkID]()
		if org == "noisy" {
			ctx = noisy
		}
		if _, known := l.find(ctx, id, func() *bulk { return &bulk{was: engine.Bulk{ID: id}} }); known {
			t.Errorf("%s is known", id)
		}
		return id
	}
	one, first := note("quiet"), note("noisy")
	for range bulksKept {
		note("noisy")
	}
	if _, known := l.find(quiet, one, nil); !known {
		t.Error("another org's bulks took the place of the quiet one's")
	}
	if _, known := l.find(noisy, first, nil); known || len(l.list) != bulksKept+1 {
		t.Errorf("the oldest is known: %v, of %d", known, len(l.list))
	}
}
