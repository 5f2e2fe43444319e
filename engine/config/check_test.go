package config_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/config"
)

// TestNegative: a negative number is refused, except -1 where it switches off.
func TestNegative(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits config.Limits
		timing config.Timing
		want   string // empty: accepted
	}{
		"zero":             {},
		"off":              {limits: config.Limits{SlotsPerSession: -1, NoProgress: -1}, timing: config.Timing{Drain: -1, Retention: -1}},
		"a limit":          {limits: config.Limits{SlotsPerSession: -2}, want: "Limits.SlotsPerSession is -2"},
		"one without off":  {limits: config.Limits{ModelAttempts: -1}, want: "Limits.ModelAttempts is -1"},
		"a time":           {timing: config.Timing{Drain: -time.Second}, want: "Timing.Drain is -1s"},
		"a time, no off":   {timing: config.Timing{Deadline: -1}, want: "Timing.Deadline is -1ns"},
		"of a single tool": {timing: config.Timing{SoftBudgets: map[string]time.Duration{"build": -5}}, want: "SoftBudgets of build"},
	} {
		err := errors.Join(c.limits.Check(), c.timing.Check())
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}
