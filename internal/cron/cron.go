// Package cron says when a recurring schedule fires: it reads cron expressions, and finds the moments of a spec in a time zone.
//
// It may import the root and the cron library, of which it uses the parser only. The one thing to know: all but Parse is pure. There
// is no clock here, and a zone comes in as data; so the same spec, moment and zone give the same fires on every machine and after
// every restart. The library accepts more than Perdure does and words its refusals for programmers; so a text is checked here first,
// field by field, and only then read by the library.
package cron

import (
	"fmt"
	"math/bits"
	"strings"

	sdk "github.com/netresearch/go-cron"

	"github.com/perdure/perdure"
)

// MaxBytes is the length of the longest text. It is far beyond what lists of all numbers need.
const MaxBytes = 1000

// Parse reads a cron expression (SC1): five fields for minute, hour, day of month, month and day of week, with lists, ranges, steps
// and English three-letter names in any case, or one of @hourly, @daily, @weekly, @monthly and @yearly. Spaces and tabs lie between
// the fields. Seconds, years, @every, a time zone and what other programs added are refused. The error is Invalid and gives the
// reason. That a spec never fires is not seen here: ask CheckFires of the spec.
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

// read has the library read five fields that are known to be good. The flags are read from the text, since the library forgets
// the star of a field such as */15 (SC3, SC4).
func read(words []string) (Spec, error) {
	parser, err := sdk.TryNewParser(sdk.Minute | sdk.Hour | sdk.Dom | sdk.Month | sdk.Dow | sdk.DowOrDom)
	if err != nil {
		return Spec{}, fmt.Errorf("make a parser: %w", err)
	}
	parsed, err := parser.Parse(strings.Join(words, " "))
	if err != nil {
		return Spec{}, fmt.Errorf("it cannot be read: %w", err)
	}
	sets, ok := parsed.(*sdk.SpecSchedule)
	if !ok {
		return Spec{}, fmt.Errorf("it was read as a %T, and has no minutes", parsed)
	}
	spec := Spec{
		Minutes:   numbers(sets.Minute, 0, 59),
		Hours:     numbers(sets.Hour, 0, 23),
		MonthDays: numbers(sets.Dom, 1, 31),
		Months:    numbers(sets.Month, 1, 12),
		WeekDays:  numbers(sets.Dow, 0, 6), // the library has made 0 of 7
		Wild:      strings.HasPrefix(words[0], "*") || strings.HasPrefix(words[1], "*"),
		AnyDay:    strings.HasPrefix(words[2], "*") || strings.HasPrefix(words[4], "*"),
	}
	return spec, spec.Check()
}

// numbers takes the bits from low to high: above them the library keeps a flag.
func numbers(set uint64, low, high int) NumberSet {
	var out NumberSet
	for ; set != 0; set &= set - 1 {
		if n := bits.TrailingZeros64(set); n >= low && n <= high {
			out |= 1 << n
		}
	}
	return out
}
