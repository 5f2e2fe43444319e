package local

import (
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cron"
)

// The defaults of the firing of schedules (chapter 18).
const (
	defaultCatchUp = 4
	firesAtOnce    = 16 // commits of fires that are on time
	duePage        = 32
	longestNap     = 5 * time.Second        // the clock on the wall may be set meanwhile (SC18)
	shortestNap    = 250 * time.Millisecond // while fires wait for the end of others
	zoneCheckPage  = 1000
)

// Timekeeping is how schedules fire.
type Timekeeping struct {
	Schedules       perdure.ScheduleRules // the zero value: the defaults of chapter 18
	CatchupParallel int                   // late fires at work at once (SC20); 0: 4
}

func (t Timekeeping) withDefaults() Timekeeping {
	if t.Schedules == (perdure.ScheduleRules{}) {
		t.Schedules = perdure.DefaultScheduleRules()
	}
	if t.CatchupParallel <= 0 {
		t.CatchupParallel = defaultCatchUp
	}
	return t
}

// zoneOf loads the zone of a schedule. Invalid: there is none of that name.
func zoneOf(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || strings.EqualFold(name, "local") { // the machine's own means something else on another one
		return nil, fmt.Errorf("%w schedule: no time zone is called %q; use an IANA name such as Europe/Zurich", perdure.Invalid, name)
	}
	return zone, nil
}

// specOf reads when a recurring schedule fires.
func specOf(s perdure.Schedule) (cron.Spec, *time.Location, error) {
	zone, err := zoneOf(s.Zone)
	if err != nil {
		return cron.Spec{}, nil, err
	}
	spec, err := cron.Parse(s.Cron)
	return spec, zone, err
}

// timingOf reads when a schedule fires. Invalid: it cannot be read.
func timingOf(s perdure.Schedule) (perdure.Timing, error) {
	if s.Cron == "" {
		if _, err := zoneOf(s.Zone); err != nil {
			return perdure.Timing{}, err
		}
		return perdure.OnceAt(s.At), nil
	}
	spec, zone, err := specOf(s)
	if err != nil {
		return perdure.Timing{}, err
	}
	next := func(after time.Time) (time.Time, bool) {
		at, ok := spec.Next(after, zone)
		return at.UTC(), ok
	}
	return perdure.Timing{Next: next, Interval: spec.Interval()}, nil
}

// checkTiming says whether a schedule may be made or resumed (SC9 to SC11), with the reason in full.
func checkTiming(s perdure.Schedule, now time.Time, rules perdure.ScheduleRules) (perdure.Timing, error) {
	timing, err := timingOf(s)
	if err == nil && s.Cron != "" {
		var spec cron.Spec
		var zone *time.Location
		if spec, zone, err = specOf(s); err == nil {
			err = spec.CheckFires(now, zone, rules.MinInterval)
		}
	}
	if err == nil {
		err = s.CheckTiming(timing, now, rules)
	}
	return timing, err
}
