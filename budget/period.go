package budget

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // time zones work without a database on the machine

	"github.com/perdure/perdure"
)

// The kinds of a period with a length.
const (
	every   = "every"   // consecutive windows of a length, from the creation of the budget on
	rolling = "rolling" // a window of a length that always ends now
)

// Period says for which time a limit holds. Its text is "none", "every 24h", "rolling 24h", or
// hour, day, week, month or year, in UTC or in a zone: "month Europe/Berlin". The zero value is
// none.
type Period struct {
	kind   string        // every, rolling, or a calendar unit; empty: none
	length time.Duration // of every and rolling
	zone   string        // of the calendar; empty: UTC
}

// Limits of a length.
const (
	minPeriod = time.Second
	maxPeriod = 10 * 366 * 24 * time.Hour
)

// ParsePeriod reads the text that String writes. Any other text is Invalid.
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
			return Period{}, fmt.Errorf("%w period %.60q: %q is not a duration such as 90m or 24h",
				perdure.Invalid, text, words[1])
		}
		p.length = long.Truncate(time.Microsecond)
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

// Check returns an Invalid error if the period is wrong.
func (p Period) Check() error {
	switch p.kind {
	case "":
	case every, rolling:
		if p.length < minPeriod || p.length > maxPeriod {
			return fmt.Errorf("%w period of %s: it must be one second to ten years", perdure.Invalid, p.length)
		}
	case "hour", "day", "week", "month", "year":
		if _, err := p.location(); err != nil {
			return fmt.Errorf("%w zone %.60q: use a name such as Europe/Berlin", perdure.Invalid, p.zone)
		}
	default:
		return fmt.Errorf("%w period %.60q: use none, every 24h, rolling 24h, or hour, day, week, month or year, "+
			"optionally followed by a zone", perdure.Invalid, p.kind)
	}
	return nil
}

func (p Period) location() (*time.Location, error) {
	if p.zone == "Local" { // it means something else on each machine
		return nil, perdure.Invalid
	}
	return time.LoadLocation(p.zone)
}

// String returns the text that ParsePeriod reads.
func (p Period) String() string {
	switch {
	case p.kind == "":
		return "none"
	case p.length > 0:
		return p.kind + " " + p.length.String()
	case p.zone == "":
		return p.kind
	}
	return p.kind + " " + p.zone
}

// IsZero reports whether the period is none.
func (p Period) IsZero() bool { return p.kind == "" }

// Equal reports whether both periods are the same.
func (p Period) Equal(other Period) bool { return p == other }

// MarshalText returns String.
func (p Period) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText calls ParsePeriod.
func (p *Period) UnmarshalText(text []byte) error {
	parsed, err := ParsePeriod(string(text))
	if err == nil {
		*p = parsed
	}
	return err
}

// Window returns the time around now for which the limit holds. Entries after from count, and at
// until the next window begins. from is zero if all entries count, and until is zero if no window
// ends at a fixed moment. anchor is when the budget was created.
func (p Period) Window(now, anchor time.Time) (from, until time.Time) {
	switch p.kind {
	case "":
		return time.Time{}, time.Time{}
	case rolling:
		return now.Add(-p.length), time.Time{}
	case every:
		n := now.Sub(anchor) / p.length
		if now.Before(anchor) {
			n = 0
		}
		from = anchor.Add(n * p.length)
		return from, from.Add(p.length)
	}
	zone, err := p.location()
	if err != nil { // it was checked before, but the zone no longer exists
		zone = time.UTC
	}
	local := now.In(zone)
	y, m, d := local.Date()
	day := func(y int, m time.Month, d int) time.Time { return startOfDay(y, m, d, zone) }
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

// startOfDay returns the first moment of a day in a zone. Midnight may not exist on that day, or
// twice.
func startOfDay(y int, m time.Month, d int, zone *time.Location) time.Time {
	midnight := time.Date(y, m, d, 0, 0, 0, 0, zone)
	date := time.Date(y, m, d, 12, 0, 0, 0, zone).Day()
	if midnight.Day() == date && midnight.Add(-1).Day() != date {
		return midnight
	}
	const step = 15 * time.Minute // every offset is a multiple of it
	for t := midnight.Add(-3 * time.Hour); t.Before(midnight.Add(3 * time.Hour)); t = t.Add(step) {
		if t.Day() == date {
			return t
		}
	}
	return midnight
}
