package budget

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zones are there wherever the program runs

	"github.com/perdure/perdure"
)

// The kinds of a period that is a length of time.
const (
	every   = "every"   // windows of a length, one after another, from when the budget was set
	rolling = "rolling" // the last so much time, at any moment
)

// Period is in which time a limit holds (BU1). As text it is "none"; "every 24h"; "rolling 24h"; or hour, day, week, month or
// year, in UTC or in a zone: "month Europe/Berlin". The zero value is none.
type Period struct {
	kind string        // every, rolling, or a unit of the calendar; empty: none
	long time.Duration // of every and rolling
	zone string        // of the calendar; empty: UTC
}

// The bounds of a length.
const (
	leastPeriod = time.Second
	mostPeriod  = 10 * 366 * 24 * time.Hour
)

// ParsePeriod reads what String writes. Invalid: it is none.
func ParsePeriod(text string) (Period, error) {
	words := strings.Fields(text)
	if len(words) == 0 || len(words) == 1 && words[0] == "none" {
		return Period{}, nil
	}
	p := Period{kind: words[0]}
	switch {
	case len(words) == 2 && (p.kind == every || p.kind == rolling):
		long, err := time.ParseDuration(words[1])
		if err != nil {
			return Period{}, fmt.Errorf("%w period %.60q: %q is no length such as 90m or 24h", perdure.Invalid, text, words[1])
		}
		p.long = long.Truncate(time.Microsecond)
	case len(words) == 2:
		p.zone = words[1]
	case len(words) > 2:
		p.kind = text
	}
	if p.zone == "UTC" {
		p.zone = ""
	}
	return p, p.Check()
}

// Check says whether it is a period. Invalid: what is wrong with it.
func (p Period) Check() error {
	switch p.kind {
	case "":
	case every, rolling:
		if p.long < leastPeriod || p.long > mostPeriod {
			return fmt.Errorf("%w period of %s: it has one second to ten years", perdure.Invalid, p.long)
		}
	case "hour", "day", "week", "month", "year":
		if _, err := p.location(); err != nil {
			return fmt.Errorf("%w zone %.60q: give a name such as Europe/Berlin", perdure.Invalid, p.zone)
		}
	default:
		return fmt.Errorf("%w period %.60q: none, every 24h, rolling 24h, or hour, day, week, month or year with a zone behind it", perdure.Invalid, p.kind)
	}
	return nil
}

func (p Period) location() (*time.Location, error) {
	if p.zone == "Local" { // means another thing on each machine
		return nil, perdure.Invalid
	}
	return time.LoadLocation(p.zone)
}

// String writes it.
func (p Period) String() string {
	switch {
	case p.kind == "":
		return "none"
	case p.long > 0:
		return p.kind + " " + p.long.String()
	case p.zone == "":
		return p.kind
	}
	return p.kind + " " + p.zone
}

// IsZero reports whether it is none.
func (p Period) IsZero() bool { return p.kind == "" }

// Equal reports whether two are the same.
func (p Period) Equal(other Period) bool { return p == other }

// MarshalText is String.
func (p Period) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is ParsePeriod.
func (p *Period) UnmarshalText(text []byte) error {
	parsed, err := ParsePeriod(string(text))
	if err == nil {
		*p = parsed
	}
	return err
}

// Window is the time around now in which the limit holds: what was spent after from counts, and at until it begins anew. from is
// zero where all counts, and until where nothing begins anew at one moment. anchor is when the budget was set.
func (p Period) Window(now, anchor time.Time) (from, until time.Time) {
	switch p.kind {
	case "":
		return time.Time{}, time.Time{}
	case rolling:
		return now.Add(-p.long), time.Time{}
	case every:
		n := now.Sub(anchor) / p.long
		if now.Before(anchor) {
			n = 0
		}
		from = anchor.Add(n * p.long)
		return from, from.Add(p.long)
	}
	zone, err := p.location()
	if err != nil { // checked before: the zone is gone since
		zone = time.UTC
	}
	local := now.In(zone)
	y, m, d := local.Date()
	day := func(y int, m time.Month, d int) time.Time { return dayBegins(y, m, d, zone) }
	switch p.kind {
	case "hour":
		from = now.Add(-time.Duration(local.Minute())*time.Minute - time.Duration(local.Second())*time.Second - time.Duration(local.Nanosecond()))
		until = from.Add(time.Hour)
	case "day":
		from, until = day(y, m, d), day(y, m, d+1)
	case "week": // from Monday
		d -= (int(local.Weekday()) + 6) % 7
		from, until = day(y, m, d), day(y, m, d+7)
	case "month":
		from, until = day(y, m, 1), day(y, m+1, 1)
	default:
		from, until = day(y, 1, 1), day(y+1, 1, 1)
	}
	return from.UTC(), until.UTC()
}

// dayBegins is the first moment of a day in a zone, also where midnight does not exist that day, or exists twice.
func dayBegins(y int, m time.Month, d int, zone *time.Location) time.Time {
	midnight := time.Date(y, m, d, 0, 0, 0, 0, zone)
	date := time.Date(y, m, d, 12, 0, 0, 0, zone).Day()
	if midnight.Day() == date && midnight.Add(-1).Day() != date {
		return midnight
	}
	const step = 15 * time.Minute // of which every offset is a multiple
	for t := midnight.Add(-3 * time.Hour); t.Before(midnight.Add(3 * time.Hour)); t = t.Add(step) {
		if t.Day() == date {
			return t
		}
	}
	return midnight
}
