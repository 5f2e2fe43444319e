package cron

import (
	"fmt"
	"strings"
	"time"
)

// Fire is one future fire of a schedule, and how clock changes of its zone affect it.
type Fire struct {
	At    time.Time   // in the zone of the schedule
	Clock ClockEffect // usually empty
	Text  string      // explains Clock in a sentence or two; empty if Clock is
}

// Fires returns up to n fires after a time. It returns fewer only if ten years pass without one. A
// nil zone is UTC.
func (s Spec) Fires(after time.Time, zone *time.Location, n int) []Fire {
	zone = zoneOr(zone)
	var fires []Fire
	for range n {
		found, ok := s.next(after, zone)
		if !ok {
			break
		}
		fires = append(fires, s.explain(after, found, zone))
		after = time.Unix(found.at, 0)
	}
	return fires
}

// explain describes the fire next after a time, including what was skipped since.
func (s Spec) explain(after time.Time, next moment, zone *time.Location) Fire {
	fire := Fire{At: time.Unix(next.at, 0).In(zone)}
	var groups [][]moment // each of one effect at one instant
	for midnight := range s.days(after, zone) {
		if midnight > next.wall+2*daySeconds {
			break
		}
		day := clockOf(midnight, zone)
		if day.plain() {
			continue
		}
		for m := range s.moments(day, after.Unix()) {
			last := len(groups) - 1
			switch {
			case m.clock == "" || m.at <= after.Unix() || m.at > next.at || m.at < next.at && m.clock != ClockSkipped:
			case last >= 0 && groups[last][0].at == m.at && groups[last][0].clock == m.clock:
				groups[last] = append(groups[last], m)
			default:
				groups = append(groups, []moment{m})
			}
		}
	}
	var texts []string
	for _, group := range groups {
		if m := group[0]; fire.Clock == "" || m.clock != ClockSkipped {
			fire.Clock = m.clock
		}
		texts = append(texts, sentence(group, zone))
	}
	fire.Text = strings.Join(texts, " ")
	return fire
}

// sentence explains the effect of a clock change on some wall times of a spec, which all have the
// same effect at the same instant.
func sentence(group []moment, zone *time.Location) string {
	const (
		day    = "2006-01-02"
		minute = "15:04"
		both   = day + " " + minute
	)
	at, clock := group[0].at, group[0].clock
	first, last := asUTC(group[0].wall), asUTC(group[len(group)-1].wall)
	times, verb := first.Format(minute)+" on "+first.Format(day), "does"
	switch {
	case len(group) > 1 && first.Format(day) != last.Format(day):
		times, verb = fmt.Sprintf("%s to %s (%d times)", first.Format(both), last.Format(both), len(group)), "do"
	case len(group) == 2:
		times, verb = first.Format(minute)+" and "+last.Format(minute)+" on "+last.Format(day), "do"
	case len(group) > 2:
		times, verb = fmt.Sprintf("%s to %s (%d times) on %s", first.Format(minute), last.Format(minute), len(group), last.Format(day)), "do"
	}
	switch clock {
	case ClockGap, ClockSkipped:
		from, to := asUTC(at+offsetAt(at-1, zone)), asUTC(at+offsetAt(at, zone))
		layout, outcome := minute, "it fires as the gap ends."
		if from.Format(day) != to.Format(day) {
			layout = both
		}
		if clock == ClockSkipped {
			outcome = "nothing fires for that."
		}
		return fmt.Sprintf("%s %s not exist in %s: the clocks go from %s to %s, and %s",
			times, verb, zone, from.Format(layout), to.Format(layout), outcome)
	}
	outcome := map[ClockEffect]string{
		ClockOnce:   "it fires at the first of the two only, at UTC%s.",
		ClockFirst:  "it fires both times, and this is the first, at UTC%s.",
		ClockSecond: "it fires both times, and this is the second, at UTC%s.",
	}[clock]
	return fmt.Sprintf("%s happens twice in %s: "+outcome, times, zone, time.Unix(at, 0).In(zone).Format("-07:00"))
}

func asUTC(wall int64) time.Time { return time.Unix(wall, 0).UTC() }
