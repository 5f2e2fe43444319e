// Package cron computes when a recurring schedule fires: it parses cron expressions, and finds the
// fires of a spec in a time zone.
//
// It may import the root and the cron library, of which it uses only the parser.
//
// The one thing to know: everything except Parse is pure. The package reads no clock, and the zone
// is an argument, so the same spec, time and zone give the same fires on every machine and after
// every restart. The library accepts more than Perdure does, and its errors are written for
// programmers; therefore this package first checks the text field by field, and only then passes it
// to the library.
package cron

import (
	"fmt"
	"math/bits"
	"strings"

	sdk "github.com/netresearch/go-cron"

	"github.com/perdure/perdure"
)

// MaxBytes is the maximum length of an expression. Even lists of all numbers are far shorter.
const MaxBytes = 1000

// Parse parses a cron expression (SC1): five fields for minute, hour, day of month, month and day
// of week, with lists, ranges, steps and English three-letter names in any case, or one of @hourly,
// @daily, @weekly, @monthly and @yearly. Fields are separated by spaces and tabs. Seconds, years,
// @every, a time zone and extensions of other programs are refused. The error is Invalid and gives
// the reason. Parse does not notice that a spec never fires; see [Spec.CheckFires].
func Parse(text string) (Spec, error) {
	spec, err := parse(text)
	if err != nil {
		return Spec{}, fmt.Errorf("%w: cron %s: %w", perdure.Invalid, quoted(text), err)
	}
	return spec, nil
}

func parse(text string) (Spec, error) {
	if err := checkText(text); err != nil {
		return Spec{}, err
	}
	words := strings.Fields(text)
	if err := checkZone(words); err != nil {
		return Spec{}, err
	}
	if len(words) > 0 && strings.HasPrefix(words[0], "@") {
		long, err := expand(words)
		if err != nil {
			return Spec{}, err
		}
		words = strings.Fields(long)
	}
	if err := checkCount(words); err != nil {
		return Spec{}, err
	}
	for i, f := range fields() {
		if err := f.check(words[i]); err != nil {
			return Spec{}, fmt.Errorf("%s %q: %w", f.name, words[i], err)
		}
	}
	return read(words)
}

// read parses five checked fields with the library. The flags come from the text, since the library
// does not record the star of a field such as */15 (SC3, SC4).
func read(words []string) (Spec, error) {
	parser, err := sdk.TryNewParser(sdk.Minute | sdk.Hour | sdk.Dom | sdk.Month | sdk.Dow | sdk.DowOrDom)
	if err != nil {
		return Spec{}, fmt.Errorf("create the parser: %w", err)
	}
	parsed, err := parser.Parse(strings.Join(words, " "))
	if err != nil {
		return Spec{}, fmt.Errorf("parse: %w", err)
	}
	sets, ok := parsed.(*sdk.SpecSchedule)
	if !ok {
		return Spec{}, fmt.Errorf("parsed as %T, which has no minutes", parsed)
	}
	spec := Spec{
		Minutes:            numbers(sets.Minute, 0, 59),
		Hours:              numbers(sets.Hour, 0, 23),
		MonthDays:          numbers(sets.Dom, 1, 31),
		Months:             numbers(sets.Month, 1, 12),
		WeekDays:           numbers(sets.Dow, 0, 6), // the library converts 7 to 0
		FollowsElapsedTime: strings.HasPrefix(words[0], "*") || strings.HasPrefix(words[1], "*"),
		DayInBothSets:      strings.HasPrefix(words[2], "*") || strings.HasPrefix(words[4], "*"),
	}
	return spec, spec.Check()
}

// numbers returns the bits from low to high; the library stores a flag above them.
func numbers(set uint64, low, high int) NumberSet {
	var out NumberSet
	for ; set != 0; set &= set - 1 {
		if n := bits.TrailingZeros64(set); n >= low && n <= high {
			out |= 1 << n
		}
	}
	return out
}
