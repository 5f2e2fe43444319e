package perdure_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/perdure/perdure"
)

// TestOverflowAdmits is the table of BG17.
func TestOverflowAdmits(t *testing.T) {
	t.Parallel()
	const (
		queue, reject, evict = perdure.OverflowQueue, perdure.OverflowReject, perdure.OverflowEvict
		perSession           = "Maximum 5 active background runs per session."
		perProcess           = "Worker is already running the maximum 64 active background runs."
	)
	caps := perdure.SlotCaps{PerSession: 5, PerProcess: 64, Detached: 32, Queued: 2, Live: 8}
	for name, c := range map[string]struct {
		policy   perdure.Overflow
		use      perdure.SlotUsage
		free     bool
		position int
		text     string
	}{
		"free":                         {queue, perdure.SlotUsage{PerSession: 4, PerProcess: 63}, true, 0, ""},
		"the_zero_policy_queues":       {"", perdure.SlotUsage{PerSession: 5}, false, 1, ""},
		"full_and_queued":              {queue, perdure.SlotUsage{PerSession: 5, Queued: 1}, false, 2, ""},
		"the_queue_comes_first":        {queue, perdure.SlotUsage{Queued: 1}, false, 2, ""},
		"the_queue_is_full":            {queue, perdure.SlotUsage{PerSession: 5, Queued: 2}, false, 0, perSession},
		"the_process_and_queue_full":   {queue, perdure.SlotUsage{PerProcess: 64, Queued: 2}, false, 0, perProcess},
		"rejected":                     {reject, perdure.SlotUsage{PerSession: 5}, false, 0, perSession},
		"rejected_by_the_process":      {reject, perdure.SlotUsage{PerProcess: 64}, false, 0, perProcess},
		"evicting_asks_no_session_cap": {evict, perdure.SlotUsage{PerSession: 500}, true, 0, ""},
		"evicting_asks_the_process":    {evict, perdure.SlotUsage{PerProcess: 64}, false, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			free, position, err := c.policy.Admit(caps, c.use)
			if free != c.free || position != c.position || (err != nil) != (c.text != "") {
				t.Fatalf("got %t, %d, %v, want %t, %d, %q", free, position, err, c.free, c.position, c.text)
			}
			if err != nil && (!errors.Is(err, perdure.Limit) || !strings.HasPrefix(err.Error(), c.text)) {
				t.Errorf("got %v, want Limit and %q", err, c.text)
			}
		})
	}
}

// TestOverflowOfDetached says which calls may leave the foreground, and how many tasks go for them.
func TestOverflowOfDetached(t *testing.T) {
	t.Parallel()
	caps := perdure.SlotCaps{PerProcess: 64, Detached: 32, Live: 8}
	full := perdure.SlotUsage{Detached: 32, PerProcess: 40}
	for policy, want := range map[perdure.Overflow]bool{"": false, perdure.OverflowQueue: false, perdure.OverflowReject: false, perdure.OverflowEvict: true} {
		err := policy.AdmitDetached(caps, full)
		if (err == nil) != want || err != nil && !errors.Is(err, perdure.Limit) {
			t.Errorf("%q: got %v, want it to leave: %t", policy, err, want)
		}
		if err := policy.AdmitDetached(caps, perdure.SlotUsage{PerProcess: 64}); !errors.Is(err, perdure.Limit) {
			t.Errorf("%q in a full process: got %v, want Limit", policy, err)
		}
		if n := policy.Excess(caps, 10); (n == 2) != want || n != 0 && !want {
			t.Errorf("%q: %d go", policy, n)
		}
	}
	if perdure.OverflowEvict.Excess(caps, 8) != 0 || perdure.OverflowEvict.Excess(perdure.SlotCaps{}, 100) != 0 {
		t.Error("tasks go that are not too many")
	}
	if perdure.Overflow("other").Valid() || !perdure.Overflow("").Valid() || !perdure.OverflowEvict.Valid() {
		t.Error("other words are accepted as policies")
	}
}
