package cron_test

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	sdk "github.com/netresearch/go-cron"
	"pgregory.net/rapid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cron"
)

// TestParse holds SC1, SC3 and SC4: sets and flags, by example.
func TestParse(t *testing.T) {
	t.Parallel()
	all := cron.Spec{Minutes: span(0, 59), Hours: span(0, 23), MonthDays: span(1, 31), Months: span(1, 12), WeekDays: span(0, 6), FollowsElapsedTime: true, DayInBothSets: true}
	with := func(change func(*cron.Spec)) cron.Spec {
		spec := all
		change(&spec)
		return spec
	}
	at := func(minutes, hours cron.NumberSet) func(*cron.Spec) {
		return func(s *cron.Spec) { s.Minutes, s.Hours, s.FollowsElapsedTime = minutes, hours, false }
	}
	of := cron.NumbersOf
	cases := map[string]cron.Spec{
		"* * * * *":           all,
		"  *\t* *  * *\t":     all,
		"@hourly":             with(func(s *cron.Spec) { s.Minutes = of(0) }),
		" @daily ":            with(at(of(0), of(0))),
		"@weekly":             with(func(s *cron.Spec) { at(of(0), of(0))(s); s.WeekDays = of(0) }),
		"@monthly":            with(func(s *cron.Spec) { at(of(0), of(0))(s); s.MonthDays = of(1) }),
		"@yearly":             with(func(s *cron.Spec) { at(of(0), of(0))(s); s.MonthDays, s.Months = of(1), of(1) }),
		"30 2 * * *":          with(at(of(30), of(2))),
		"00 02 * * *":         with(at(of(0), of(2))),
		"0 2,3 * * *":         with(at(of(0), of(2, 3))),
		"5,1-3,50/4 9 * * *":  with(at(of(1, 2, 3, 5, 50, 54, 58), of(9))),
		"0-10/5 9-17/4 * * *": with(at(of(0, 5, 10), of(9, 13, 17))),
		"*/15 2 * * *":        with(func(s *cron.Spec) { s.Minutes, s.Hours = of(0, 15, 30, 45), of(2) }),
		"7,*/30 2 * * *":      with(at(of(0, 7, 30), of(2))), // begins with 7
		"0 */12 * * *":        with(func(s *cron.Spec) { s.Minutes, s.Hours = of(0), of(0, 12) }),
		"0 9 13 * 5": with(func(s *cron.Spec) {
			at(of(0), of(9))(s)
			s.MonthDays, s.WeekDays, s.DayInBothSets = of(13), of(5), false
		}),
		"0 9 */20 * 5":    with(func(s *cron.Spec) { at(of(0), of(9))(s); s.MonthDays, s.WeekDays = of(1, 21), of(5) }),
		"0 9 13 * */3":    with(func(s *cron.Spec) { at(of(0), of(9))(s); s.MonthDays, s.WeekDays = of(13), of(0, 3, 6) }),
		"0 9 * * 7":       with(func(s *cron.Spec) { at(of(0), of(9))(s); s.WeekDays = of(0) }),
		"0 9 * * 5-7":     with(func(s *cron.Spec) { at(of(0), of(9))(s); s.WeekDays = of(0, 5, 6) }),
		"0 9 * * 0-7":     with(at(of(0), of(9))),
		"0 9 * * 1/2":     with(func(s *cron.Spec) { at(of(0), of(9))(s); s.WeekDays = of(1, 3, 5, 0) }),
		"0 9 * * Mon-FRI": with(func(s *cron.Spec) { at(of(0), of(9))(s); s.WeekDays = span(1, 5) }),
		"0 9 1 jan,DEC-12,Apr/3 sun": with(func(s *cron.Spec) {
			at(of(0), of(9))(s)
			s.MonthDays, s.Months, s.WeekDays, s.DayInBothSets = of(1), of(1, 4, 7, 10, 12), of(0), false
		}),
	}
	for text, want := range cases {
		got, err := cron.Parse(text)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
}

// TestParseRefuses what SC1 refuses, with a reason for people.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{
		"is empty":                     {"", "  \t "},
		"has 4 fields":                 {"* * * *"},
		"has 1 fields":                 {"hourly", "*"},
		"seconds and years":            {"0 * * * * *", "* * * * * 2027", "0 0 0 1 1 * 2027"},
		"has 8 fields":                 {"* * * * * * * *"},
		"@every counts":                {"@every 5m", "@every 1h30m", "@every"},
		"write @daily":                 {"@midnight"},
		"write @yearly":                {"@annually"},
		"has no time":                  {"@reboot"},
		"in lower case":                {"@Daily", "@triggered", "@manual", "@none", "@", "@fortnightly", "@daily5"},
		"must stand alone":             {"@daily 5", "@hourly * * * *"},
		"schedule's timezone":          {"TZ=UTC * * * * *", "CRON_TZ=Europe/Berlin 0 9 * * *", "tz=UTC @daily", "CRON_TZ="},
		"write *":                      {"* * ? * *", "* * * * ?", "?/5 * * * *"},
		"one line":                     {"* * * * *\n", "* * * * *\n* * * * *", "*\u00a0* * * *", "* * * * m\u00f6n", "* * * * *\x00", "\xff * * * *"},
		"at most 1000":                 {strings.Repeat("*", 1001)},
		"is not between 0 and 59":      {"60 * * * *", "1-60 * * * *", "99/2 * * * *"},
		"is not between 0 and 23":      {"0 24 * * *"},
		"is not between 1 and 31":      {"0 0 0 * *", "0 0 32 * *", "0 0 0-5 * *"},
		"is not between 1 and 12":      {"0 0 1 0 *", "0 0 1 13 *"},
		"is not between 0 and 7":       {"0 0 * * 8"},
		"runs backwards":               {"30-10 * * * *", "6-5 * * * *", "0 0 28-3 * *", "0 0 1 nov-feb *", "0 0 * * sat-mon", "0 22-2/3 * * *"},
		"such as 22-23,0-2":            {"0 22-2 * * *"},
		"so write 5-7":                 {"0 0 * * fri-sun", "0 0 * * 5-0"},
		"a comma":                      {", * * * *", "1,,2 * * * *", ",1 * * * *", "1, * * * *", "* ,,, * * *"},
		"a number is missing":          {"-5 * * * *", "5- * * * *", "/5 * * * *", "- * * * *", "1,-2 * * * *"},
		"is not a number from 0 to 59": {"+5 * * * *", "005 * * * *", "1.5 * * * *", "five * * * *", "H * * * *", "0x5 * * * *", "1=2 * * * *"},
		"is not a number from 1 to 31": {"0 0 L * *", "0 0 15W * *", "0 0 LW * *"},
		"nor one of jan, feb":          {"0 0 1 january *", "0 0 1 mon *", "0 0 1 ja *"},
		"nor one of sun, mon":          {"0 0 * * monday", "0 0 * * 5#3", "0 0 * * FRIL", "0 0 * * jan"},
		"* must stand alone":           {"*5 * * * *", "*-5 * * * *", "** * * * *", "5,*6 * * * *"},
		"must follow the /":            {"*/ * * * *", "*/x * * * *", "*/-5 * * * *", "*/5/5 * * * *", "*/+5 * * * *", "*/100 * * * *", "0 0 1 */feb *"},
		"is 0, and must be at least 1": {"*/0 * * * *", "5/00 * * * *"},
		"leaves only one number":       {"*/60 * * * *", "0 */24 * * *", "5-8/4 * * * *", "59/2 * * * *"},
		`minute "60"`:                  {"60 * * * *"},
		`day of week "8"`:              {"0 0 * * 8"},
		`cron "60 * * * *"`:            {"60 * * * *"},
	}
	for reason, texts := range cases {
		for _, text := range texts {
			spec, err := cron.Parse(text)
			if !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), reason) {
				t.Errorf("%q: got %+v, %v, want a refusal with %q", text, spec, err, reason)
			}
		}
	}
}

// TestParseReads whatever the grammar makes, and finds the numbers that were meant.
func TestParseReads(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var words []string
		var want cron.Spec
		sets := []*cron.NumberSet{&want.Minutes, &want.Hours, &want.MonthDays, &want.Months, &want.WeekDays}
		for i, f := range grammar() {
			word, set := f.draw(t)
			words, *sets[i] = append(words, word), set
		}
		want.FollowsElapsedTime = words[0][0] == '*' || words[1][0] == '*'
		want.DayInBothSets = words[2][0] == '*' || words[4][0] == '*'

		got, err := cron.Parse(strings.Join(words, " "))

		if err != nil || got != want {
			t.Fatalf("%s: got %+v, %v, want %+v", strings.Join(words, " "), got, err, want)
		}
	})
}

// TestNextAgreesWithTheLibrary in UTC, which has no clock changes. The library does not know fields
// that begin with * and have a step; if it is told whether days are joined by "and" or "or", it
// finds the same fires.
func TestNextAgreesWithTheLibrary(t *testing.T) {
	t.Parallel()
	const fires = 20
	compared, never := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		var words []string
		for _, f := range grammar() {
			word, _ := f.draw(t)
			words = append(words, word)
		}
		if strings.Contains(words[2]+words[4], ",*") {
			// The library treats a field with * anywhere as free; SC3 only one that begins so.
			return
		}
		text := strings.Join(words, " ")
		ours, err := cron.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		theirs := library(t, text, ours.DayInBothSets)
		at := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "after"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns")).UTC()
		for range fires {
			next, ok := ours.Next(at, time.UTC)
			want := theirs.Next(at)
			if !ok {
				if never++; !want.IsZero() && want.Before(at.AddDate(10, 0, 0)) {
					t.Fatalf("%s after %s: got nothing, want %s", text, at, want)
				}
				return
			}
			if compared++; !next.Equal(want) {
				t.Fatalf("%s after %s: got %s, want %s", text, at, next, want)
			}
			at = next
		}
	})
	t.Logf("%d fires compared; %d times there was none", compared, never)
	if compared == 0 {
		t.Error("nothing was compared")
	}
}

func library(t interface{ Fatal(...any) }, text string, and bool) sdk.Schedule {
	options := sdk.Minute | sdk.Hour | sdk.Dom | sdk.Month | sdk.Dow
	if !and {
		options |= sdk.DowOrDom
	}
	parser, err := sdk.TryNewParser(options)
	if err != nil {
		t.Fatal(err)
	}
	schedule, err := parser.WithMaxSearchYears(12).Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return schedule
}

// drawn is a field as the tests know it.
type drawn struct {
	low, high int
	names     []string // for low and what follows
	sunday    bool     // 7 counts as 0
}

func grammar() []drawn {
	return []drawn{
		{low: 0, high: 59}, {low: 0, high: 23}, {low: 1, high: 31},
		{low: 1, high: 12, names: strings.Fields("Jan FEB mar apr may jun jul aug sep oct nov dEc")},
		{low: 0, high: 7, names: strings.Fields("sun Mon TUE wed thu fri sat"), sunday: true},
	}
}

// draw returns the text of a field and the numbers that it means.
func (f drawn) draw(t *rapid.T) (string, cron.NumberSet) {
	var parts []string
	var set cron.NumberSet
	for range rapid.IntRange(1, 3).Draw(t, "parts") {
		low, high, text := f.low, f.high, "*"
		switch rapid.SampledFrom([]string{"*", "n", "range"}).Draw(t, "kind") {
		case "n":
			low = rapid.IntRange(f.low, f.high).Draw(t, "n")
			text = f.word(t, low)
		case "range":
			low = rapid.IntRange(f.low, f.high).Draw(t, "from")
			high = rapid.IntRange(low, f.high).Draw(t, "to")
			text = f.word(t, low) + "-" + f.word(t, high)
		}
		step := 1
		if size := high - low + 1; size > 1 && rapid.Bool().Draw(t, "stepped") {
			step = rapid.IntRange(1, size-1).Draw(t, "step")
			text += fmt.Sprintf("/%d", step)
		} else if !strings.ContainsAny(text, "*-") {
			high = low
		}
		for n := low; n <= high; n += step {
			if f.sunday {
				set |= 1 << (n % 7)
			} else {
				set |= 1 << n
			}
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ","), set
}

func (f drawn) word(t *rapid.T, n int) string {
	if i := n - f.low; i < len(f.names) && rapid.Bool().Draw(t, "named") {
		return f.names[i]
	}
	return fmt.Sprint(n)
}

func span(low, high int) cron.NumberSet {
	var set cron.NumberSet
	for n := low; n <= high; n++ {
		set |= 1 << n
	}
	return set
}

// FuzzParse: no text causes a panic. A refused text has a printable reason; an accepted text means
// what the library reads in it.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"* * * * *", "*/15 2 * * *", "0 0 */2 * 1", "0 9 * * mon-fri", "0 9 1,15 jan-mar/2 7", "@daily", "@every 5m", "TZ=UTC * * * * *",
		"? * * * *", "22-2 * * * *", "1,,2 * * * *", "*-5 * * * *", "0 0 L * *", "H * * * *", "* * * * fri#3", "0 0 0 0 0 0", "\xff", "",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spec, err := cron.Parse(text)
		if err != nil {
			if reason := err.Error(); !errors.Is(err, perdure.Invalid) || len(reason) > 2500 || !utf8.ValidString(reason) || strings.ContainsAny(reason, "\n\x00\x1b") {
				t.Fatalf("%q: the refusal cannot be shown: %q", text, reason)
			}
			if spec != (cron.Spec{}) {
				t.Fatalf("%q: refused, and yet %+v", text, spec)
			}
			return
		}
		if err := spec.Check(); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		words := strings.Fields(text)
		if strings.HasPrefix(words[0], "@") {
			return
		}
		parser, err := sdk.TryNewParser(sdk.Minute | sdk.Hour | sdk.Dom | sdk.Month | sdk.Dow)
		if err != nil {
			t.Fatal(err)
		}
		read, err := parser.Parse(text)
		if err != nil {
			t.Fatalf("%q: the library refuses it: %v", text, err)
		}
		sets, ok := read.(*sdk.SpecSchedule)
		if !ok || sets.Location != time.Local {
			t.Fatalf("%q: the library read a %T", text, read)
		}
		const low63 = 1<<63 - 1 // above is the library's own flag
		got := [...]int{bits.OnesCount64(uint64(spec.Minutes)), bits.OnesCount64(uint64(spec.Hours)), bits.OnesCount64(uint64(spec.MonthDays)),
			bits.OnesCount64(uint64(spec.Months)), bits.OnesCount64(uint64(spec.WeekDays))}
		want := [...]int{bits.OnesCount64(sets.Minute & low63), bits.OnesCount64(sets.Hour & low63), bits.OnesCount64(sets.Dom & low63),
			bits.OnesCount64(sets.Month & low63), bits.OnesCount64(sets.Dow & 0x7f)}
		if got != want {
			t.Fatalf("%q: got %v numbers, want %v", text, got, want)
		}
	})
}
