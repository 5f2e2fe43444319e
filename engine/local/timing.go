package local

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cron"
	"github.com/perdure/perdure/store"
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

// former says whether the former fire of a schedule is still at work, and whether its turn failed.
func former(r store.Reader, s perdure.Schedule) (busy, failed bool, err error) {
	if s.LastFire.IsZero() {
		return false, false, nil
	}
	f, err := r.Fire(s.ID, s.LastFire)
	if err != nil && !errors.Is(err, perdure.NotFound) {
		return false, false, err
	}
	return atWork(r, f)
}

// atWork says whether what a fire began is still at work, and whether its turn failed.
func atWork(r store.Reader, f perdure.Fire) (busy, failed bool, err error) {
	switch {
	case f.Task != "":
		t, err := r.Task("", f.Task)
		if errors.Is(err, perdure.NotFound) {
			return false, false, nil // long ago
		}
		return t.State.Live(), false, err
	case f.Message != "":
		events, err := r.Events(f.Session, f.Seq, 0)
		ended, failed := perdure.MessageFate(events, f.Message)
		return !ended, failed, err
	}
	return false, false, nil
}

// forSomebody reports whether a fire that is at work waits for a person: for an answer, or for its session to be resumed.
func forSomebody(r store.Reader, f perdure.Fire) (bool, error) {
	if f.Task != "" {
		t, err := r.Task("", f.Task)
		return err == nil && t.Waits(), err
	}
	row, err := r.Session(f.Session)
	if err != nil || row.Status == perdure.SessionPaused {
		return err == nil, err
	}
	open, err := r.Approvals(store.ApprovalFilter{Session: f.Session, State: perdure.ApprovalOpen, Limit: 1})
	return len(open) > 0, err
}
