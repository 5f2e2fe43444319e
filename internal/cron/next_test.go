package cron_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"pgregory.net/rapid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/cron"
)

// TestNext is the table of the cases in which schedulers go wrong (SC2 to SC8): each fire after the
// moment, in order.
func TestNext(t *testing.T) {
	t.Parallel()
	const newYork, berlin, lordHowe = "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"
	cases := []struct{ spec, zone, after, want string }{
		// a gap: once, as it ends (SC5)
		{"30 2 * * *", newYork, "2026-03-07 12:00", "2026-03-08 03:00 -0400, 2026-03-09 02:30 -0400"},
		{"0 2,3 * * *", newYork, "2026-03-07 12:00", "2026-03-08 03:00 -0400, 2026-03-09 02:00 -0400, 2026-03-09 03:00 -0400"},
		{"0-59 2 * * *", newYork, "2026-03-08 01:59", "2026-03-08 03:00 -0400, 2026-03-09 02:00 -0400"},
		{"15 2 * * *", lordHowe, "2026-10-03 12:00", "2026-10-04 02:30 +1100, 2026-10-05 02:15 +1100"}, // 30 minutes
		{"0 0 * * *", "Africa/Cairo", "2026-04-22 12:00", "2026-04-23 00:00 +0200, 2026-04-24 01:00 +0300, 2026-04-25 00:00 +0300"},
		{"0 0 * * *", "Asia/Beirut", "2026-03-27 12:00", "2026-03-28 00:00 +0200, 2026-03-29 01:00 +0300, 2026-03-30 00:00 +0300"},
		{"0 12 * * *", "Pacific/Apia", "2011-12-29 00:00", "2011-12-29 12:00 -1000, 2011-12-31 00:00 +1400, 2011-12-31 12:00 +1400"}, // a day
		// twice: the first (SC6)
		{"30 1 * * *", newYork, "2026-10-31 12:00", "2026-11-01 01:30 -0400, 2026-11-02 01:30 -0500"},
		{"45 1 * * *", lordHowe, "2026-04-04 12:00", "2026-04-05 01:45 +1100, 2026-04-06 01:45 +1030"},
		// wild: elapsed time (SC7)
		{"0 * * * *", newYork, "2026-11-01 00:10", "2026-11-01 01:00 -0400, 2026-11-01 01:00 -0500, 2026-11-01 02:00 -0500, 2026-11-01 03:00 -0500"},
		{"*/30 1 * * *", newYork, "2026-10-31 12:00", "2026-11-01 01:00 -0400, 2026-11-01 01:30 -0400, 2026-11-01 01:00 -0500, 2026-11-01 01:30 -0500, 2026-11-02 01:00 -0500"},
		{"*/15 2 * * *", berlin, "2026-03-28 12:00", "2026-03-30 02:00 +0200, 2026-03-30 02:15 +0200"},
		{"0 * * * *", berlin, "2026-03-29 00:30", "2026-03-29 01:00 +0100, 2026-03-29 03:00 +0200"},
		{"* * * * *", "Pacific/Apia", "2011-12-29 23:58", "2011-12-29 23:59 -1000, 2011-12-31 00:00 +1400, 2011-12-31 00:01 +1400"},
		// the clock goes back past midnight: an hour of the day before comes after the next day's
		// beginning
		{"30,*/30 23,0 * * *", "America/St_Johns", "2010-11-06 23:15", "2010-11-06 23:30 -0230, 2010-11-07 00:00 -0230, 2010-11-07 00:30 -0330"}, // begins with 30, so it is fixed
		{"*/30 23,0 * * *", "America/St_Johns", "2010-11-06 23:15", "2010-11-06 23:30 -0230, 2010-11-07 00:00 -0230, 2010-11-06 23:30 -0330, 2010-11-07 00:00 -0330, 2010-11-07 00:30 -0330"},
		// days: either, or both (SC3)
		{"0 0 13 * 5", "UTC", "2026-11-01 00:00", "2026-11-06 00:00 +0000, 2026-11-13 00:00 +0000, 2026-11-20 00:00 +0000, 2026-11-27 00:00 +0000"},
		{"0 0 13 * 1", "UTC", "2026-11-09 00:00", "2026-11-13 00:00 +0000, 2026-11-16 00:00 +0000"},
		{"0 0 */2 * 1", "UTC", "2026-11-01 00:00", "2026-11-09 00:00 +0000, 2026-11-23 00:00 +0000, 2026-12-07 00:00 +0000"},
		{"0 9 * * 7", berlin, "2026-03-27 10:00", "2026-03-29 09:00 +0200"},
		{"@daily", berlin, "2026-03-27 10:00", "2026-03-28 00:00 +0100"},
		// far away (SC9)
		{"0 0 29 2 *", "UTC", "2026-11-01 00:00", "2028-02-29 00:00 +0000, 2032-02-29 00:00 +0000"},
		{"0 0 29 2 *", "UTC", "2096-03-01 00:00", "2104-02-29 00:00 +0000"},
		{"0 0 29 2 *", newYork, "2096-03-01 00:00", "2104-02-29 00:00 -0500"},
		{"0 0 31 2 *", "UTC", "2026-11-01 00:00", "never"},
		{"30 1 * * *", newYork, "2090-11-04 12:00", "2090-11-05 01:30 -0400, 2090-11-06 01:30 -0500"}, // the rules go on for ever
	}
	for _, c := range cases {
		spec, zone := parse(t, c.spec), location(t, c.zone)
		at, err := time.ParseInLocation("2006-01-02 15:04", c.after, zone)
		if err != nil {
			t.Fatal(err)
		}

		var got []string
		for range strings.Split(c.want, ",") {
			next, ok := spec.Next(at, zone)
			if !ok {
				got = append(got, "never")
				break
			}
			got, at = append(got, next.Format("2006-01-02 15:04 -0700")), next
		}

		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s in %s after %s:\n got %s\nwant %s", c.spec, c.zone, c.after, got, c.want)
		}
	}
}

// TestNextIsStrict: a fire is not its own successor, and fractions of a second make no difference.
func TestNextIsStrict(t *testing.T) {
	t.Parallel()
	spec, nine := parse(t, "0 9 * * *"), time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

	for before, want := range map[time.Duration]time.Time{
		-time.Nanosecond: nine.AddDate(0, 0, 1), 0: nine.AddDate(0, 0, 1), time.Nanosecond: nine, time.Second: nine,
		24 * time.Hour: nine, 25 * time.Hour: nine.AddDate(0, 0, -1),
	} {
		if got, ok := spec.Next(nine.Add(-before), nil); !ok || !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("%s before: got %s, %v, want %s", before, got, ok, want)
		}
	}
}

// TestTenYears is the bound of SC9: what comes within ten years counts, to the second, and nothing
// later.
func TestTenYears(t *testing.T) {
	t.Parallel()
	spec := parse(t, "0 0 29 2 */7") // a Sunday, the 29th of February: 2032, 2060
	fire := time.Date(2060, 2, 29, 0, 0, 0, 0, time.UTC)

	at, ok := spec.Next(fire.AddDate(-10, 0, 0), time.UTC)
	_, tooEarly := spec.Next(time.Date(2050, 2, 28, 23, 59, 59, 0, time.UTC), time.UTC)
	_, zero := cron.Spec{}.Next(fire, time.UTC)

	if !ok || !at.Equal(fire) || tooEarly || zero {
		t.Errorf("got %s, %v, too early %v, the zero value %v", at, ok, tooEarly, zero)
	}
}

// TestInterval holds SC10: exact, across midnight and the ends of months.
func TestInterval(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"* * * * *": time.Minute, "*/5 * * * *": 5 * time.Minute, "*/7 * * * *": 4 * time.Minute, "0,59 * * * *": time.Minute, "0,58 * * * *": 2 * time.Minute,
		"0 * * * *": time.Hour, "0,10 9 * * *": 10 * time.Minute, "59 23,0 * * *": time.Hour, "0,59 0,23 * * *": time.Minute, "30 */5 * * *": 4 * time.Hour,
		"0 0 * * *": 24 * time.Hour, "0 9 * * 1": 7 * 24 * time.Hour, "0 9 * * 1,3": 2 * 24 * time.Hour, "0 9 * * 6,1": 2 * 24 * time.Hour,
		"0 0 1 * *": 28 * 24 * time.Hour, "0 0 31 * *": 31 * 24 * time.Hour, "0 0 1,31 * *": 24 * time.Hour, "0 0 28,1 2,3 *": 24 * time.Hour,
		"0 0,23 1 * *": 23 * time.Hour, "0 0,23 1,2 * *": time.Hour, "0 9 13 * 5": 24 * time.Hour, "0 0 1 1 *": 365 * 24 * time.Hour,
		"0 0 29 2 *": 1461 * 24 * time.Hour, "0 0 29 2 */7": 28 * 365.25 * 24 * time.Hour, "0 0 31 2 *": 0, "0 0 31 4,6,9,11 *": 0,
	} {
		if got := parse(t, text).Interval(); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	if got := (cron.Spec{}).Interval(); got != 0 {
		t.Errorf("the zero value: got %s", got)
	}
}

// TestCheckFires: what never fires, or too often, is refused at creation with its reason (SC9,
// SC10).
func TestCheckFires(t *testing.T) {
	t.Parallel()
	now, berlin := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC), location(t, "Europe/Berlin")
	cases := []struct {
		text   string
		zone   *time.Location
		least  time.Duration
		reason string // empty: accepted
	}{
		{"*/5 * * * *", nil, 5 * time.Minute, ""},
		{"* * * * *", nil, 0, ""},
		{"*/4 * * * *", nil, 5 * time.Minute, "fires again after 4m0s, and at least 5m0s"},
		{"0,58 0,23 * * *", nil, 5 * time.Minute, "fires again after 2m0s"},
		{"0 0 31 2 *", nil, 0, "its months never have such a day"},
		{"0 0 30 2 *", berlin, time.Hour, "next 10 years"},
		{"0 0 29 2 */7", berlin, time.Hour, ""}, // in 2032
		{"*/15 2 24 3 */7", berlin, 0, ""},      // a Sunday, but not the last one of March
		// The last one: whenever it is a Sunday, the hour is a gap.
		{"*/15 2 31 3 */7", berlin, 0, "never have that time"},
		{"15 2 31 3 */7", berlin, 0, ""},
	}
	for _, c := range cases {
		err := parse(t, c.text).CheckFires(now, c.zone, c.least)
		if c.reason == "" && err != nil || c.reason != "" && (!errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), c.reason)) {
			t.Errorf("%s: got %v, want %q", c.text, err, c.reason)
		}
	}
	if err := (cron.Spec{}).CheckFires(now, nil, 0); !errors.Is(err, perdure.Invalid) {
		t.Errorf("the zero value: got %v", err)
	}
}

// TestSpecCheck: sets that are empty, or contain an invalid minute, hour, day or month.
func TestSpecCheck(t *testing.T) {
	t.Parallel()
	good := parse(t, "0 9 1 1 1")
	for want, change := range map[string]func(*cron.Spec){
		"minutes":           func(s *cron.Spec) { s.Minutes |= 1 << 60 },
		"hours":             func(s *cron.Spec) { s.Hours = 0 },
		"days of the month": func(s *cron.Spec) { s.MonthDays |= 1 },
		"months":            func(s *cron.Spec) { s.Months |= 1 << 13 },
		"days of the week":  func(s *cron.Spec) { s.WeekDays |= 1 << 7 },
	} {
		spec := good
		change(&spec)
		if err := spec.Check(); !errors.Is(err, perdure.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
}

// TestNumberSet yields its numbers in order.
func TestNumberSet(t *testing.T) {
	t.Parallel()
	set := cron.NumbersOf(63, 5, 0, 5, -1, 64)

	if got := slices.Collect(set.All()); !slices.Equal(got, []int{0, 5, 63}) || !set.Has(63) || set.Has(1) || set.Has(-1) || set.Has(64) {
		t.Errorf("got %v", got)
	}
	for range set.All() {
		break
	}
}

// TestFires: the explanations of clock changes for upcoming fires.
func TestFires(t *testing.T) {
	t.Parallel()
	const newYork, berlin = "America/New_York", "Europe/Berlin"
	cases := []struct {
		spec, zone, after string
		want              []string // time, effect, text
	}{
		{"30 2 * * *", newYork, "2026-03-06 12:00", []string{
			"2026-03-07 02:30 -0500 ",
			"2026-03-08 03:00 -0400 gap 02:30 on 2026-03-08 does not exist in America/New_York: the clocks go from 02:00 to 03:00, and it fires as the gap ends.",
			"2026-03-09 02:30 -0400 "}},
		{"0,30 2,3 * * *", newYork, "2026-03-08 00:00", []string{
			"2026-03-08 03:00 -0400 gap 02:00 and 02:30 on 2026-03-08 do not exist in America/New_York: the clocks go from 02:00 to 03:00, and it fires as the gap ends.",
			"2026-03-08 03:30 -0400 "}},
		{"0 */2 * * *", "Pacific/Apia", "2011-12-29 21:00", []string{
			"2011-12-29 22:00 -1000 ",
			"2011-12-31 00:00 +1400 skipped 00:00 to 22:00 (12 times) on 2011-12-30 do not exist in Pacific/Apia: the clocks go from 2011-12-30 00:00 to 2011-12-31 00:00, and nothing fires for that."}},
		{"30 1 * * *", newYork, "2026-10-31 12:00", []string{
			"2026-11-01 01:30 -0400 once 01:30 on 2026-11-01 happens twice in America/New_York: it fires at the first of the two only, at UTC-04:00.",
			"2026-11-02 01:30 -0500 "}},
		{"0 * * * *", newYork, "2026-11-01 00:10", []string{
			"2026-11-01 01:00 -0400 first 01:00 on 2026-11-01 happens twice in America/New_York: it fires both times, and this is the first, at UTC-04:00.",
			"2026-11-01 01:00 -0500 second 01:00 on 2026-11-01 happens twice in America/New_York: it fires both times, and this is the second, at UTC-05:00.",
			"2026-11-01 02:00 -0500 "}},
		{"*/15 2 * * *", berlin, "2026-03-28 12:00", []string{
			"2026-03-30 02:00 +0200 skipped 02:00 to 02:45 (4 times) on 2026-03-29 do not exist in Europe/Berlin: the clocks go from 02:00 to 03:00, and nothing fires for that.",
			"2026-03-30 02:15 +0200 "}},
		{"0 * * * *", berlin, "2026-03-29 00:30", []string{
			"2026-03-29 01:00 +0100 ",
			"2026-03-29 03:00 +0200 skipped 02:00 on 2026-03-29 does not exist in Europe/Berlin: the clocks go from 02:00 to 03:00, and nothing fires for that.",
			"2026-03-29 04:00 +0200 "}},
		{"59 23 * * *", "America/Scoresbysund", "2026-03-27 12:00", []string{
			"2026-03-27 23:59 -0200 ",
			"2026-03-29 00:00 -0100 gap 23:59 on 2026-03-28 does not exist in America/Scoresbysund: the clocks go from 2026-03-28 23:00 to 2026-03-29 00:00, and it fires as the gap ends.",
			"2026-03-29 23:59 -0100 "}},
		{"0 0 31 2 *", newYork, "2026-03-28 12:00", nil},
	}
	for _, c := range cases {
		zone := location(t, c.zone)
		after, err := time.ParseInLocation("2006-01-02 15:04", c.after, zone)
		if err != nil {
			t.Fatal(err)
		}

		var got []string
		for _, fire := range parse(t, c.spec).Fires(after, zone, max(1, len(c.want))) {
			got = append(got, strings.TrimSuffix(fire.At.Format("2006-01-02 15:04 -0700 ")+string(fire.Clock)+" "+fire.Text, " "))
		}

		if !slices.Equal(got, c.want) {
			t.Errorf("%s in %s:\n got %s\nwant %s", c.spec, c.zone, strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
		}
	}
}

// TestNextLaws holds PR7 for any spec, zone and moment: strictly after, monotone, and nothing lies
// between.
func TestNextLaws(t *testing.T) {
	t.Parallel()
	zones := goZones(t)
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		zone := rapid.SampledFrom(zones).Draw(t, "zone")
		after := time.Unix(rapid.Int64Range(1700000000, 2300000000).Draw(t, "after"), rapid.Int64Range(0, 1e9-1).Draw(t, "ns"))
		next, ok := spec.Next(after, zone)
		if !ok {
			return
		}

		if !next.After(after) || next.Second() != 0 {
			t.Fatalf("%s after %s in %s", next, after, zone)
		}
		between := time.Duration(rapid.Int64Range(0, int64(min(next.Sub(after), 100*24*time.Hour))-1).Draw(t, "between"))
		if same, ok := spec.Next(after.Add(between), zone); !ok || !same.Equal(next) {
			t.Fatalf("after %s it is %s, and after %s it is %s", after, next, after.Add(between), same)
		}
		if second, ok := spec.Next(next, zone); ok && !second.After(next) {
			t.Fatalf("%s follows %s", second, next)
		}
		fires := spec.Fires(after, zone, 3)
		for at, i := after, 0; i < len(fires); i++ {
			want, ok := spec.Next(at, zone)
			if !ok || !fires[i].At.Equal(want) || (fires[i].Clock == "") != (fires[i].Text == "") {
				t.Fatalf("fire %d is %+v, and Next says %s", i, fires[i], want)
			}
			at = want
		}
	})
}

// TestIntervalLaw holds PR7: where no clock is shifted, no two fires of ten years are closer than
// the interval, and some are as close if two of the closest days lie in them.
func TestIntervalLaw(t *testing.T) {
	t.Parallel()
	reached := 0
	rapid.Check(t, func(t *rapid.T) {
		spec := drawSpec(t)
		at := time.Unix(rapid.Int64Range(1700000000, 2300000000).Draw(t, "after"), 0)
		interval, closest := spec.Interval(), time.Duration(0)
		last, ok := spec.Next(at, time.UTC)
		for range 200 {
			next, more := spec.Next(last, time.UTC)
			if !ok || !more {
				break
			}
			if gap := next.Sub(last); closest == 0 || gap < closest {
				closest = gap
			}
			last = next
		}
		if closest != 0 && closest < interval || interval == 0 && ok {
			t.Fatalf("%+v: interval %s, and fires %s apart", spec, interval, closest)
		}
		if closest == interval && ok {
			reached++
		}
	})
	if reached == 0 {
		t.Error("no spec has fires as close as its interval")
	}
}

// drawSpec draws a spec with few or many numbers.
func drawSpec(t *rapid.T) cron.Spec {
	set := func(name string, low, high int) cron.NumberSet {
		if rapid.Bool().Draw(t, name+" all") {
			return numberRange(low, high)
		}
		return cron.NumbersOf(rapid.SliceOfN(rapid.IntRange(low, high), 1, 5).Draw(t, name)...)
	}
	return cron.Spec{
		Minutes: set("minutes", 0, 59), Hours: set("hours", 0, 23), MonthDays: set("days", 1, 31), Months: set("months", 1, 12), WeekDays: set("weekdays", 0, 6),
		FollowsElapsedTime: rapid.Bool().Draw(t, "wild"), DayInBothSets: rapid.Bool().Draw(t, "any day"),
	}
}

func numberRange(low, high int) cron.NumberSet {
	var set cron.NumberSet
	for n := low; n <= high; n++ {
		set |= cron.NumbersOf(n)
	}
	return set
}

func parse(t testing.TB, text string) cron.Spec {
	t.Helper()
	spec, err := cron.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func location(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// BenchmarkNext: the usual, the densest, around a shift, and the worst: ten years for the 29th of
// February on a Monday.
func BenchmarkNext(b *testing.B) {
	zone := location(b, "America/New_York")
	rare := parse(b, "0 0 29 2 *")
	rare.WeekDays, rare.DayInBothSets = cron.NumbersOf(int(time.Monday)), true
	plain, shift := time.Date(2026, 11, 22, 13, 0, 0, 0, zone), time.Date(2026, 11, 1, 23, 0, 0, 0, zone)
	for _, c := range []struct {
		name  string
		spec  cron.Spec
		after time.Time
	}{
		{"nine o'clock", parse(b, "0 9 * * *"), plain}, {"every minute", parse(b, "* * * * *"), plain}, {"every minute at a shift", parse(b, "* * * * *"), shift},
		{"29 February", parse(b, "0 0 29 2 *"), plain}, {"29 February on a Monday", rare, plain}, {"same after 2037", rare, plain.AddDate(60, 0, 0)},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.spec.Next(c.after, zone)
			}
		})
	}
	b.Run("Interval of 29 February on a Monday", func(b *testing.B) {
		for b.Loop() {
			rare.Interval()
		}
	})
}
