package host

import (
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
)

// TestBulksOfOrgs: any number of bulk operations of one org leaves those of another org available.
func TestBulksOfOrgs(t *testing.T) {
	t.Parallel()
	var l bulks
	quiet, noisy := engine.WithOwner(t.Context(), engine.Owner{Org: "quiet"}), engine.WithOwner(t.Context(), engine.Owner{Org: "noisy"})
	note := func(org string) perdure.BulkID {
		ctx, id := quiet, core.NewID[perdure.BulkID]()
		if org == "noisy" {
			ctx = noisy
		}
		if _, known := l.find(ctx, id, func() *bulk { return &bulk{status: engine.Bulk{ID: id}} }); known {
			t.Errorf("%s is known", id)
		}
		return id
	}
	one, first := note("quiet"), note("noisy")
	for range maxBulksPerOrg {
		note("noisy")
	}
	if _, known := l.find(quiet, one, nil); !known {
		t.Error("bulk operations of another org evicted the idle one's")
	}
	if _, known := l.find(noisy, first, nil); known || len(l.list) != maxBulksPerOrg+1 {
		t.Errorf("the oldest is known: %v, of %d", known, len(l.list))
	}
}
