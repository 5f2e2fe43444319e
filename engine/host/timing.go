package host

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cron"
	"github.com/perdure/perdure/store"
)

// The defaults for firing schedules.
const (
	defaultCatchUp = 4
	firesAtOnce    = 16 // commits of fires at once
	duePage        = 32
	minTimerWait   = 250 * time.Millisecond // while fires wait for the end of others
	zoneCheckPage  = 1000
)

// Timekeeping configures how schedules fire.
type Timekeeping struct {
	Schedules       perdure.ScheduleRules // zero: perdure.DefaultScheduleRules()
	CatchupParallel int                   // late fires that run at once (SC20); 0: 4
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

// zoneOf loads the time zone of a schedule. Invalid: there is no zone with that name.
func zoneOf(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || strings.EqualFold(name, "local") { // the local zone differs between machines
		return nil, fmt.Errorf("%w schedule: unknown time zone %q; use an IANA name such as Europe/Zurich",
			perdure.Invalid, name)
	}
	return zone, nil
}

// specOf parses the cron expression and zone of a recurring schedule.
func specOf(s perdure.Schedule) (cron.Spec, *time.Location, error) {
	zone, err := zoneOf(s.Zone)
	if err != nil {
		return cron.Spec{}, nil, err
	}
	spec, err := cron.Parse(s.Cron)
	return spec, zone, err
}

// timingOf returns the timing of a schedule. Invalid: its cron expression or zone is not valid.
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

// checkTiming checks whether a schedule may be created or resumed (SC9 to SC11). The error explains
// why not.
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

// previousFire reports whether the previous fire of a schedule is still running, and whether its
// turn failed.
func previousFire(r store.Reader, s perdure.Schedule) (busy, failed bool, err error) {
	if s.LastFire.IsZero() {
		return false, false, nil
	}
	f, err := r.Schedules().Fire(s.ID, s.LastFire)
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return false, false, err
	}
	return fireStatus(r, f)
}

// fireStatus reports whether the work of a fire is still running, and whether its turn failed.
func fireStatus(r store.Reader, f perdure.Fire) (busy, failed bool, err error) {
	switch {
	case f.Task != "":
		t, err := r.Tasks().Get("", f.Task)
		if errors.Is(err, perdure.NotFound) {
			return false, false, nil // pruned
		}
		return t.State.Live(), false, err
	case f.Message != "":
		events, err := r.Journal().Events(f.Session, f.Seq, 0)
		ended, failed := perdure.MessageOutcome(events, f.Message)
		return !ended, failed, err
	}
	return false, false, nil
}

// waitsForPerson reports whether a running fire waits for a person: for an answer, or for the
// resume of its session.
func waitsForPerson(r store.Reader, f perdure.Fire) (bool, error) {
	if f.Task != "" {
		t, err := r.Tasks().Get("", f.Task)
		return err == nil && t.AwaitsInput(), err
	}
	row, err := r.Sessions().Get(f.Session)
	if err != nil || row.Status == perdure.SessionPaused {
		return err == nil, err
	}
	open, err := r.Approvals().List(store.ApprovalFilter{Session: f.Session, State: perdure.ApprovalOpen, Limit: 1})
	return len(open) > 0, err
}
