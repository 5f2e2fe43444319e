//go:build soak

package cron_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/cron"
	"github.com/perdure/perdure/internal/soak"
)

// TestR13EveryTransition compares Next with a walk over every real minute, around each shift of the
// clocks from 2024 to 2040, in every zone of Go's data. Some of the zones and of their shifts are
// taken, and under SCALE=full all.
func TestR13EveryTransition(t *testing.T) {
	t.Parallel()
	const shards = 16
	everyZone := soak.Count(t, "ZONE_STRIDE", 13, 1)
	everyShift := soak.Count(t, "SHIFT_STRIDE", 17, 1) // an odd one, so that neither spring nor autumn is left out
	specs, all := oracleSpecs(t), goZones(t)
	var total tally
	t.Run("shard", func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprint(shard), func(t *testing.T) {
				t.Parallel()
				var own tally
				for i := shard * everyZone; i < len(all); i += shards * everyZone {
					own.zone(t, all[i], specs, everyShift)
				}
				total.add(&own)
			})
		}
	})
	t.Logf("figure R13, oracle: %d of %d zones that differ, %d of their %d shifts, %d specs, %d fires compared, no difference",
		total.zones, len(all), total.taken, total.shifts, len(specs), total.fires)
	if total.taken == 0 || total.fires < total.taken*len(specs) {
		t.Error("too little was compared")
	}
}

// tally counts the comparisons.
type tally struct {
	mu                          sync.Mutex // guards the rest of the one that is the sum of the others
	zones, shifts, taken, fires int
}

func (n *tally) add(other *tally) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.zones, n.shifts, n.taken, n.fires = n.zones+other.zones, n.shifts+other.shifts, n.taken+other.taken, n.fires+other.fires
}

// zone compares the shifts of one zone, or every so many of them.
func (n *tally) zone(t *testing.T, zone *time.Location, specs []oracleSpec, every int) {
	n.zones++
	for _, shift := range shiftsOf(zone) {
		if n.shifts++; n.shifts%every != 0 {
			continue
		}
		n.taken++
		walk := newWalk(zone, shift)
		for _, spec := range specs {
			n.fires += walk.compare(t, spec)
		}
		if t.Failed() {
			t.Fatalf("%s at %s", zone, shift)
		}
	}
}

// oracleSpecs are those of the table, and what reaches each hour at which some zone shifts its
// clocks.
func oracleSpecs(t *testing.T) []oracleSpec {
	t.Helper()
	texts := []string{
		"* * * * *", "*/7 * * * *", "*/15 * * * *", "0 * * * *", "@hourly", "59 * * * *", "* 2 * * *", "*/15 2 * * *", "*/30 1 * * *", "*/20 0 * * *",
		"*/10 23 * * *", "30 */2 * * *", "15 */3 * * *", "0 */6 * * 1-5", "*/15 0-4 * * 0", "*/15 0-4,20-23 */2 * *", "0-59/30 * * * *", "5,35 * 1-15 * 0",
		"0 0 * * *", "1 0 * * *", "30 0 * * *", "59 0 * * *", "0 1 * * *", "15 1 * * *", "30 1 * * *", "45 1 * * *", "0 2 * * *", "15 2 * * *", "30 2 * * *",
		"59 2 * * *", "0 3 * * *", "30 3 * * *", "0 4 * * *", "0 22 * * *", "30 22 * * *", "0 23 * * *", "30 23 * * *", "59 23 * * *", "0 2,3 * * *",
		"0-59 2 * * *", "0-59 0-23 * * *", "0,30 0-4 * * *", "0,15,30,45 0-3,21-23 * * *", "0 9 * * 1-5", "30 2 * * 0", "30 2 1-7 * 0", "30 1 25-31 * *",
		"45 1 */2 * *", "15 0,1,2,3 8-14 3,11 *", "30 2 29 3 *", "0 0 1 * *", "30 2 * 3,10 */7", "7,*/15 2 * * *", "0 12 * * *",
	}
	specs := make([]oracleSpec, 0, len(texts))
	for _, text := range texts {
		specs = append(specs, oracleSpec{text: text, Spec: parse(t, text)})
	}
	return specs
}

type oracleSpec struct {
	cron.Spec
	text string
}

// matches is the definition: the fields of a clock on the wall, compared one by one (SC3).
func (s oracleSpec) matches(wall time.Time) bool {
	day, weekday := s.MonthDays.Has(wall.Day()), s.WeekDays.Has(int(wall.Weekday()))
	both, either := day && weekday, day || weekday
	return s.Minutes.Has(wall.Minute()) && s.Hours.Has(wall.Hour()) && s.Months.Has(int(wall.Month())) && (both || either && !s.DayInBothSets)
}

// walk is what the clock on the wall reads at each real minute around a shift.
type walk struct {
	zone    *time.Location
	shift   time.Time
	minutes []tick
}

// tick is one real minute.
type tick struct {
	at      time.Time
	reading time.Time   // the clock on the wall, as if it were UTC
	again   bool        // it has read so before
	jumped  []time.Time // readings that were left out just before
}

// reach is how far a walk goes in both directions: beyond any gap, so that the rest of the walk is
// ordinary.
const reach = 40 * time.Hour

func newWalk(zone *time.Location, shift time.Time) walk {
	w := walk{zone: zone, shift: shift}
	seen := make(map[time.Time]bool)
	var before time.Time
	for at := shift.Add(-reach).UTC().Truncate(time.Minute); at.Before(shift.Add(reach)); at = at.Add(time.Minute) {
		local := at.In(zone)
		now := tick{at: at, reading: time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), 0, 0, time.UTC)}
		if !before.IsZero() {
			for missing := before.Add(time.Minute); missing.Before(now.reading); missing = missing.Add(time.Minute) {
				now.jumped = append(now.jumped, missing)
			}
		}
		now.again = seen[now.reading]
		seen[now.reading], before = true, now.reading
		w.minutes = append(w.minutes, now)
	}
	return w
}

// fires applies SC5 to SC8 to each minute by itself.
func (w walk) fires(spec oracleSpec) []time.Time {
	var fires []time.Time
	for _, now := range w.minutes {
		hit := spec.matches(now.reading)
		if !spec.FollowsElapsedTime {
			hit = hit && !now.again || slices.ContainsFunc(now.jumped, spec.matches)
		}
		if hit {
			fires = append(fires, now.at)
		}
	}
	return fires
}

// compare asks Next for the fire after each fire, and after a moment just before it. Far from the
// shift a few are enough.
func (w walk) compare(t *testing.T, spec oracleSpec) (compared int) {
	const near, every = 3 * time.Hour, 41
	fires := w.fires(spec)
	last := w.minutes[len(w.minutes)-1].at
	for i := -1; i < len(fires); i++ {
		after := w.minutes[0].at
		if i >= 0 {
			after = fires[i]
		} else if len(fires) > 0 && fires[0].Equal(after) {
			continue // the walk began with it
		}
		if off := after.Sub(w.shift).Abs(); len(fires) > 100 && off > near && i%every != 0 {
			continue
		}
		compared++
		got, ok := spec.Next(after, w.zone)
		switch {
		case i+1 == len(fires):
			if ok && !got.After(last) {
				t.Errorf("%s in %s after %s: got %s, want none before %s", spec.text, w.zone, after, got, last)
			}
		case !ok || !got.Equal(fires[i+1]):
			t.Errorf("%s in %s after %s: got %s, %v, want %s", spec.text, w.zone, after, got, ok, fires[i+1].In(w.zone))
		}
	}
	return compared
}

// shiftsOf finds the moments from 2024 to 2040 at which the offset of a zone changes, to the
// minute, by looking twice a day.
func shiftsOf(zone *time.Location) []time.Time {
	offset := func(at time.Time) int {
		_, seconds := at.In(zone).Zone()
		return seconds
	}
	var shifts []time.Time
	const stride = 12 * time.Hour
	begin, end := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2041, 1, 1, 0, 0, 0, 0, time.UTC)
	before := offset(begin)
	for at := begin; at.Before(end); at = at.Add(stride) {
		after := offset(at.Add(stride))
		if before == after {
			continue
		}
		shift := at
		for offset(shift) == before {
			shift = shift.Add(time.Minute)
		}
		shifts, before = append(shifts, shift), after
	}
	return shifts
}
