package budget

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure"
)

//go:embed prices.json
var builtIn []byte

// Table says what models and tools cost, and since when. What it does not say is not known, which is another thing than
// nothing.
type Table struct {
	AsOf   string       `json:"as_of"` // the day of which it tells: 2006-01-02
	Models []ModelPrice `json:"models"`
	Tools  []ToolPrice  `json:"tools,omitempty"`
}

// ModelPrice is what a million tokens of a model cost from a day on.
type ModelPrice struct {
	Model    string   `json:"model"`
	From     string   `json:"from,omitempty"`     // 2006-01-02, the first moment in UTC; empty: since ever
	Currency Currency `json:"currency,omitempty"` // empty: usd
	Input    Amount   `json:"input"`
	Output   Amount   `json:"output"`
	Cached   *Amount  `json:"cached,omitempty"` // of the tokens in that the provider had in its cache; nil: as input
}

// ToolPrice is what a call of a tool costs from a day on. A tool that is not in the table is nobody's to be paid for.
type ToolPrice struct {
	Tool     string   `json:"tool"`
	From     string   `json:"from,omitempty"`
	Currency Currency `json:"currency,omitempty"`
	Call     Amount   `json:"call"`
}

// Prices returns the table that comes with the program.
func Prices() Table {
	t, err := ParseTable(builtIn)
	if err != nil {
		panic("perdure: the table of prices that comes with the program: " + err.Error())
	}
	return t
}

// ParseTable reads a table from JSON. Invalid: what is wrong with it, and where.
func ParseTable(text []byte) (Table, error) {
	var t Table
	if err := perdure.DecodeJSON(text, &t); err != nil {
		return Table{}, fmt.Errorf("table of prices: %w", err)
	}
	day := func(what, from string) error {
		if _, err := time.Parse(time.DateOnly, from); from != "" && err != nil {
			return fmt.Errorf("%w table of prices: %s begins on %.20q; write a day as 2006-01-02", perdure.Invalid, what, from)
		}
		return nil
	}
	if err := day("as_of", t.AsOf); err != nil {
		return Table{}, err
	}
	for i, m := range t.Models {
		t.Models[i].Currency = orUSD(m.Currency)
		if m.Model == "" || !currencyName().MatchString(string(orUSD(m.Currency))) || !orUSD(m.Currency).Money() {
			return Table{}, fmt.Errorf("%w table of prices, models[%d]: model %.60q, currency %.40q", perdure.Invalid, i, m.Model, m.Currency)
		}
		if err := day(m.Model, m.From); err != nil {
			return Table{}, err
		}
	}
	for i, p := range t.Tools {
		t.Tools[i].Currency = orUSD(p.Currency)
		if p.Tool == "" || !currencyName().MatchString(string(orUSD(p.Currency))) || !orUSD(p.Currency).Money() {
			return Table{}, fmt.Errorf("%w table of prices, tools[%d]: tool %.60q, currency %.40q", perdure.Invalid, i, p.Tool, p.Currency)
		}
		if err := day(p.Tool, p.From); err != nil {
			return Table{}, err
		}
	}
	return t, nil
}

func orUSD(c Currency) Currency {
	if c == "" {
		return USD
	}
	return c
}

// With returns the table with another one over it: what that says of a model or a tool is all that counts of it.
func (t Table) With(over Table) Table {
	t.Models = slices.DeleteFunc(slices.Clone(t.Models), func(m ModelPrice) bool {
		return slices.ContainsFunc(over.Models, func(o ModelPrice) bool { return o.Model == m.Model })
	})
	t.Tools = slices.DeleteFunc(slices.Clone(t.Tools), func(p ToolPrice) bool {
		return slices.ContainsFunc(over.Tools, func(o ToolPrice) bool { return o.Tool == p.Tool })
	})
	t.Models, t.Tools = append(t.Models, over.Models...), append(t.Tools, over.Tools...)
	if over.AsOf != "" {
		t.AsOf = over.AsOf
	}
	return t
}

// dated is the day that providers put behind the name of a model.
var dated = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`-(\d{8}|\d{4}-\d{2}-\d{2})$`) })

// Model returns what a model costs at a moment in a currency, by its name or, where that is not in the table, by its name
// without the day of its release; a provider before it, as in openai:NAME, does not count. A scripted model is called as its file is, without
// folder and ending. Not ok: it is not known.
func (t Table) Model(name string, c Currency, at time.Time) (price ModelPrice, ok bool) {
	if provider, after, ok := strings.Cut(name, ":"); ok { // the provider stands before it
		if name = after; provider == "scripted" {
			name = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
		}
	}
	for _, known := range []string{name, dated().ReplaceAllString(name, "")} {
		for _, m := range t.Models {
			if m.Model == known && m.Currency == c && since(m.From, at) && (!ok || m.From >= price.From) {
				price, ok = m, true
			}
		}
		if ok {
			break
		}
	}
	return price, ok
}

// Tool returns what a call of a tool costs at a moment in a currency. Not ok: nothing is said of it.
func (t Table) Tool(name string, c Currency, at time.Time) (price ToolPrice, ok bool) {
	for _, p := range t.Tools {
		if p.Tool == name && p.Currency == c && since(p.From, at) && (!ok || p.From >= price.From) {
			price, ok = p, true
		}
	}
	return price, ok
}

func since(day string, at time.Time) bool {
	return day == "" || strings.Compare(day, at.UTC().Format(time.DateOnly)) <= 0
}

// Cost is what tokens cost, rounded up to a millionth.
func (p ModelPrice) Cost(u perdure.Usage) Amount {
	u = perdure.Usage{}.Add(u) // none is below zero
	cached, known := min(u.CachedTokens, u.InputTokens), p.Input
	if p.Cached != nil {
		known = *p.Cached
	}
	return p.Input.times(u.InputTokens - cached).Plus(known.times(cached)).Plus(p.Output.times(u.OutputTokens))
}

// Costs is what a question to a model costs, in every currency in which the table has its price; none: it is not known.
func (t Table) Costs(model string, u perdure.Usage, at time.Time) map[Currency]Amount {
	costs := map[Currency]Amount{}
	for _, m := range t.Models {
		if _, done := costs[m.Currency]; done {
			continue
		}
		if price, ok := t.Model(model, m.Currency, at); ok {
			costs[m.Currency] = price.Cost(u)
		}
	}
	return costs
}

// CallCosts is what a call of a tool costs, likewise; none: nothing is to be paid for it.
func (t Table) CallCosts(tool string, at time.Time) map[Currency]Amount {
	costs := map[Currency]Amount{}
	for _, p := range t.Tools {
		if price, ok := t.Tool(tool, p.Currency, at); ok {
			costs[p.Currency] = price.Call
		}
	}
	return costs
}
