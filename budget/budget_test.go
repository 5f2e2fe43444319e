package budget_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
)

// TestAmount reads and writes decimal numbers without a loss, and no sum goes round.
func TestAmount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := budget.Amount(rapid.Int64Range(0, math.MaxInt64-2_000_000).Draw(t, "a"))
		got, err := budget.Parse(a.String())
		if err != nil || got != a {
			t.Fatalf("%d is written %s and read %d, %v", int64(a), a, int64(got), err)
		}
		b := budget.Amount(rapid.Int64Range(-math.MaxInt64, math.MaxInt64).Draw(t, "b"))
		if sum := a.Plus(b); b >= 0 && sum < a || b < 0 && sum > a {
			t.Fatalf("%s and %s are %s", a, b, sum)
		}
	})
	for text, want := range map[string]string{"12.50": "12.5", "0": "0", "0.000001": "0.000001", "007": "7"} {
		if got, err := budget.Parse(text); err != nil || got.String() != want {
			t.Errorf("%s: got %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "1.", ".5", "1e3", "NaN", "Inf", "0.0000001", "9223372036855", "1,5", " 1", "+1"} {
		if got, err := budget.Parse(text); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%q: got %s, %v; want Invalid", text, got, err)
		}
	}
	below := budget.Amount(math.MinInt64)
	if below.String() == "" || budget.Whole(math.MaxInt64) != budget.MaxAmount {
		t.Error("the ends of the range are not kept")
	}
}

// TestPeriod: a window holds its moment, the next begins where it ends, and what is written is
// read.
func TestPeriod(t *testing.T) {
	t.Parallel()
	texts := []string{
		"none", "every 24h0m0s", "rolling 1h30m0s", "hour", "day", "week", "month", "year", "day Europe/Berlin", "month America/New_York", "day Asia/Beirut",
		"day America/Sao_Paulo", "week Australia/Lord_Howe", "day Africa/Cairo", "hour Asia/Kolkata", "day Pacific/Apia",
	}
	rapid.Check(t, func(t *rapid.T) {
		p, err := budget.ParsePeriod(rapid.SampledFrom(texts).Draw(t, "period"))
		if err != nil {
			t.Fatal(err)
		}
		if again, err := budget.ParsePeriod(p.String()); err != nil || again != p {
			t.Fatalf("%s is read as %s, %v", p, again, err)
		}
		now := time.Unix(rapid.Int64Range(1_000_000_000, 2_000_000_000).Draw(t, "now"), 0).UTC()
		anchor := now.Add(-time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "age")))
		from, until := p.Window(now, anchor)
		if from.After(now) || !until.IsZero() && !until.After(now) {
			t.Fatalf("%s at %s: the window is %s to %s", p, now, from, until)
		}
		if until.IsZero() {
			return
		}
		if next, _ := p.Window(until, anchor); !next.Equal(until) {
			t.Fatalf("%s: after %s to %s the next begins at %s", p, from, until, next)
		}
		if last, _ := p.Window(until.Add(-time.Microsecond), anchor); !last.Equal(from) {
			t.Fatalf("%s: the window of %s ends at %s, and its last moment is in one that begins at %s", p, from, until, last)
		}
	})
	for _, text := range []string{"every", "every -1h", "every 1ms", "fortnight", "day Mars/Phobos", "day Local", "rolling 1000000h", "every 1h UTC"} {
		if p, err := budget.ParsePeriod(text); !errors.Is(err, perdure.Invalid) {
			t.Errorf("%q: got %s, %v; want Invalid", text, p, err)
		}
	}
}

// TestCalendar pins days that are no 24 hours.
func TestCalendar(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ period, now, from, until string }{
		{"day Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"}, // 23 hours
		{"day Europe/Berlin", "2026-10-25T12:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"}, // 25 hours
		// midnight does not exist
		{"day Asia/Beirut", "2026-03-29T12:00:00Z", "2026-03-28T22:00:00Z", "2026-03-29T21:00:00Z"},
		{"month", "2026-02-10T00:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"week", "2026-11-22T12:00:00Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z"},
	} {
		p, err := budget.ParsePeriod(row.period)
		if err != nil {
			t.Fatal(err)
		}
		now, _ := time.Parse(time.RFC3339, row.now)
		from, until := p.Window(now, time.Time{})
		if from.Format(time.RFC3339) != row.from || until.Format(time.RFC3339) != row.until {
			t.Errorf("%s at %s: got %s to %s, want %s to %s", row.period, row.now, from.Format(time.RFC3339), until.Format(time.RFC3339), row.from, row.until)
		}
	}
}

// TestPrices: a price holds from its day on, a table goes over another, and what is not there is
// not known.
func TestPrices(t *testing.T) {
	t.Parallel()
	own, err := budget.ParseTable([]byte(`{"as_of": "2026-11-01", "models": [
		{"model": "m", "input": "3", "cached": "0.30", "output": "15"},
		{"model": "m", "from": "2026-12-01", "input": "1", "output": "1"},
		{"model": "gpt-4o", "currency": "credits", "input": "10", "output": "10"}], "tools": [{"tool": "paid", "call": "0.01"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	table := budget.Prices().With(own)
	november, december := time.Date(2026, 11, 30, 23, 59, 59, 0, time.UTC), time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	u := perdure.Usage{InputTokens: 1_000_000, CachedTokens: 500_000, OutputTokens: 100_000}
	if p, ok := table.Model("openai:m-2026-01-02", budget.USD, november); !ok || p.Cost(u).String() != "3.15" {
		t.Errorf("in November: %s, %v; want 3.15", p.Cost(u), ok)
	}
	if p, ok := table.Model("m", budget.USD, december); !ok || p.Cost(u).String() != "1.1" {
		t.Errorf("in December: %s, %v; want 1.1", p.Cost(u), ok)
	}
	if p, _ := table.Model("m", budget.USD, november); p.Cost(perdure.Usage{InputTokens: 1}) != 3 || p.Cost(perdure.Usage{CachedTokens: 1, InputTokens: 1}) != 1 {
		t.Error("a token is not rounded up to a millionth")
	}
	for _, name := range []string{"nobody", "", "m-large", "gpt-4o"} {
		if _, ok := table.Model(name, budget.USD, november); ok {
			t.Errorf("%q has a price in usd", name)
		}
	}
	if p, ok := table.Model("scripted:/some/folder/m.yaml", budget.USD, november); !ok || p.Cost(u).String() != "3.15" {
		t.Errorf("a script is called as its file: got %+v, %t", p, ok)
	}
	// a release with a price of its own
	for name, want := range map[string]string{"gpt-4o-2024-08-06": "2.5", "gpt-4o-2024-05-13": "5", "gpt-4o": "2.5"} {
		if p, ok := budget.Prices().Model("openai:"+name, budget.USD, november); !ok || p.Input.String() != want {
			t.Errorf("%s costs %s, %t, want %s", name, p.Input, ok, want)
		}
	}
	if _, ok := table.Model("gpt-4o", "credits", november); !ok {
		t.Error("gpt-4o has no price in credits")
	}
	if costs := table.ToolCosts("paid", november); costs[budget.USD].String() != "0.01" || len(table.ToolCosts("free", november)) != 0 {
		t.Errorf("got %v", costs)
	}
	if p, ok := table.Model("m", budget.USD, november); ok && p.Cost(perdure.Usage{InputTokens: math.MaxInt64, OutputTokens: -5}) != budget.MaxAmount {
		t.Error("a cost went round")
	}
	for _, text := range []string{`{"models": [{"model": "m", "input": 3}]}`, `{"models": [{"input": "3", "output": "1"}]}`, `{"x": 1}`, `{"as_of": "today"}`,
		`{"models": [{"model": "m", "currency": "tokens", "input": "1", "output": "1"}]}`} {
		if _, err := budget.ParseTable([]byte(text)); err == nil {
			t.Errorf("%s is a table", text)
		}
	}
}

// TestStanding pins the states of BU4 and what refuses.
func TestStanding(t *testing.T) {
	t.Parallel()
	account := func(spent, reserved int64, change func(*budget.Account)) budget.Account {
		a := budget.Account{Budget: budget.Budget{Limit: budget.Whole(100), Action: budget.Stop}, Spent: budget.Whole(spent), Reserved: budget.Whole(reserved)}
		if change != nil {
			change(&a)
		}
		return a
	}
	soft := func(a *budget.Account) { a.Soft = budget.Whole(50) }
	pauses := func(a *budget.Account) { a.Action = budget.Pause }
	warns := func(a *budget.Account) { a.Action = budget.Warn }
	for name, row := range map[string]struct {
		account budget.Account
		state   budget.State
		left    int
		refuses bool
	}{
		"fresh":                {account(0, 0, nil), budget.Active, 100, false},
		"a fifth is left":      {account(80, 0, nil), budget.Warning, 20, false},
		"more than a fifth":    {account(79, 0, nil), budget.Active, 21, false},
		"nothing is left":      {account(100, 0, nil), budget.Exhausted, 0, true},
		"beyond":               {account(150, 0, nil), budget.Exhausted, 0, true},
		"others have the rest": {account(40, 60, nil), budget.Active, 60, true},
		"soft":                 {account(50, 0, soft), budget.Paused, 50, true},
		"soft, not yet":        {account(49, 0, soft), budget.Active, 51, false},
		"soft by reservation":  {account(40, 10, soft), budget.Active, 60, true},
		"pauses":               {account(100, 0, pauses), budget.Paused, 0, true},
		"only warns":           {account(150, 0, warns), budget.Warning, 0, false},
		"a limit of nothing":   {account(0, 0, func(a *budget.Account) { a.Limit = 0 }), budget.Exhausted, 0, true},
	} {
		s := row.account.Standing(time.Now(), false)
		no := row.account.Refuses(budget.Need{Amount: budget.Whole(1)}, true, false)
		if s.State != row.state || s.PercentLeft != row.left || (no != nil) != row.refuses {
			t.Errorf("%s: %s, %d %%, refuses %+v; want %s, %d %%, %t", name, s.State, s.PercentLeft, no, row.state, row.left, row.refuses)
		}
	}
	if a := account(60, 0, soft); a.Refuses(budget.Need{}, false, false) != nil || a.Refuses(budget.Need{}, true, true) != nil {
		t.Error("a soft limit stops a call, or a session that a person allowed to continue")
	}
	if a := account(100, 0, soft); a.Refuses(budget.Need{}, true, true) == nil {
		t.Error("a person's approval exceeds the hard limit")
	}
}
