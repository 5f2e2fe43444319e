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

// Table lists the prices of models and tools, and since when they apply. The price of a model that
// is not in the table is unknown, which is not the same as free.
type Table struct {
	AsOf   string       `json:"as_of"` // day on which the prices were collected: 2006-01-02
	Models []ModelPrice `json:"models"`
	Tools  []ToolPrice  `json:"tools,omitempty"`
}

// ModelPrice is the price of a million tokens of a model from a day on.
type ModelPrice struct {
	Model    string   `json:"model"`
	From     string   `json:"from,omitempty"`     // 2006-01-02, from its first moment in UTC; empty: always
	Currency Currency `json:"currency,omitempty"` // empty: usd
	Input    Amount   `json:"input"`
	Output   Amount   `json:"output"`
	Cached   *Amount  `json:"cached,omitempty"` // input tokens from the provider's cache; nil: the price of Input
}

// ToolPrice is the price of a call of a tool from a day on. A tool that is not in the table is
// free.
type ToolPrice struct {
	Tool     string   `json:"tool"`
	From     string   `json:"from,omitempty"`
	Currency Currency `json:"currency,omitempty"`
	Call     Amount   `json:"call"`
}

// Prices returns the built-in table.
func Prices() Table {
	t, err := ParseTable(builtIn)
	if err != nil {
		panic("perdure: the built-in price table: " + err.Error())
	}
	return t
}

// ParseTable reads a table from JSON. An Invalid error says what is wrong and where.
func ParseTable(text []byte) (Table, error) {
	var t Table
	if err := perdure.DecodeJSON(text, &t); err != nil {
		return Table{}, fmt.Errorf("price table: %w", err)
	}
	day := func(what, from string) error {
		if _, err := time.Parse(time.DateOnly, from); from != "" && err != nil {
			return fmt.Errorf("%w price table: the date of %s is %.20q; write it as 2006-01-02",
				perdure.Invalid, what, from)
		}
		return nil
	}
	if err := day("as_of", t.AsOf); err != nil {
		return Table{}, err
	}
	for i, m := range t.Models {
		t.Models[i].Currency = currencyOrUSD(m.Currency)
		if m.Model == "" || !currencyName().MatchString(string(currencyOrUSD(m.Currency))) || !currencyOrUSD(m.Currency).Money() {
			return Table{}, fmt.Errorf("%w price table, models[%d]: model %.60q, currency %.40q",
				perdure.Invalid, i, m.Model, m.Currency)
		}
		if err := day(m.Model, m.From); err != nil {
			return Table{}, err
		}
	}
	for i, p := range t.Tools {
		t.Tools[i].Currency = currencyOrUSD(p.Currency)
		if p.Tool == "" || !currencyName().MatchString(string(currencyOrUSD(p.Currency))) || !currencyOrUSD(p.Currency).Money() {
			return Table{}, fmt.Errorf("%w price table, tools[%d]: tool %.60q, currency %.40q",
				perdure.Invalid, i, p.Tool, p.Currency)
		}
		if err := day(p.Tool, p.From); err != nil {
			return Table{}, err
		}
	}
	return t, nil
}

func currencyOrUSD(c Currency) Currency {
	if c == "" {
		return USD
	}
	return c
}

// With returns the table with the entries of another one. For each model and tool in over, only the
// entries of over apply.
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

// releaseDate matches the release date that providers append to the name of a model.
var releaseDate = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`-(\d{8}|\d{4}-\d{2}-\d{2})$`) })

// Model returns the price of a model at a moment in a currency. It looks for the name first, then
// for the name without a release date, then for both without a provider in front, as in
// PROVIDER/NAME. The provider of PROVIDER:NAME is always ignored. The name of a scripted model is
// its file name without folder and extension. ok is false if the price is unknown.
func (t Table) Model(name string, c Currency, at time.Time) (price ModelPrice, ok bool) {
	if i := strings.IndexAny(name, ":/"); i >= 0 && name[i] == ':' { // the part in front is the provider
		provider := name[:i]
		if name = name[i+1:]; provider == "scripted" {
			name = strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
		}
	}
	names := []string{name, releaseDate().ReplaceAllString(name, "")}
	if _, after, ok := strings.Cut(name, "/"); ok { // a part in front is a provider, or belongs to the name
		names = append(names, after, releaseDate().ReplaceAllString(after, ""))
	}
	for _, known := range names {
		for _, m := range t.Models {
			if m.Model == known && m.Currency == c && startsBy(m.From, at) && (!ok || m.From >= price.From) {
				price, ok = m, true
			}
		}
		if ok {
			break
		}
	}
	return price, ok
}

// Tool returns the price of a call of a tool at a moment in a currency. ok is false if there is
// none.
func (t Table) Tool(name string, c Currency, at time.Time) (price ToolPrice, ok bool) {
	for _, p := range t.Tools {
		if p.Tool == name && p.Currency == c && startsBy(p.From, at) && (!ok || p.From >= price.From) {
			price, ok = p, true
		}
	}
	return price, ok
}

func startsBy(day string, at time.Time) bool {
	return day == "" || strings.Compare(day, at.UTC().Format(time.DateOnly)) <= 0
}

// Cost returns the price of the tokens, rounded up to a millionth.
func (p ModelPrice) Cost(u perdure.Usage) Amount {
	u = perdure.Usage{}.Add(u) // makes negative counts zero
	cached, cachedPrice := min(u.CachedTokens, u.InputTokens), p.Input
	if p.Cached != nil {
		cachedPrice = *p.Cached
	}
	return p.Input.times(u.InputTokens - cached).Plus(cachedPrice.times(cached)).Plus(p.Output.times(u.OutputTokens))
}

// Costs returns the price of a model call in each currency in which the table has one. It is empty
// if the price is unknown.
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

// ToolCosts returns the price of a call of a tool in each currency. It is empty if the call is
// free.
func (t Table) ToolCosts(tool string, at time.Time) map[Currency]Amount {
	costs := map[Currency]Amount{}
	for _, p := range t.Tools {
		if price, ok := t.Tool(tool, p.Currency, at); ok {
			costs[p.Currency] = price.Call
		}
	}
	return costs
}
