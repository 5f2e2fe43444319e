package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/meter"
	"github.com/perdure/perdure/store"
)

// costSource is what a report of costs says of itself.
const costSource = "the usage that providers reported, as the journals have it, at the prices of the day of each call; an estimate of the bill"

// The groups of a report of costs.
const (
	bySession  = "session"
	byAgent    = "agent"
	byModel    = "model"
	byTool     = "tool"
	bySchedule = "schedule"
	byDay      = "day"
)

// Costs adds up what the journals say. It reads them all, page by page, so it is as of no single moment. What a session that
// was deleted used is not in it.
func (e *Engine) Costs(ctx context.Context, q engine.CostQuery) (engine.CostReport, error) {
	if q.Group == "" {
		q.Group = bySession
	}
	t := tally{q: q, meter: e.meter, prices: e.meter.Prices(), lines: map[string]*engine.CostLine{}, total: engine.CostLine{Key: "total"}}
	if !slices.Contains([]string{bySession, byAgent, byModel, byTool, bySchedule, byDay}, q.Group) {
		return engine.CostReport{}, fmt.Errorf("costs: %w group %.40q: session, agent, model, tool, schedule or day", perdure.Invalid, q.Group)
	}
	var sessions []store.Session
	err := e.view(ctx, func(r store.Reader) (err error) {
		sessions, err = r.Sessions(listFor(ctx, 0))
		return err
	})
	for _, s := range sessions {
		if err == nil && (q.Session == "" || q.Session == s.ID || q.Session == s.Parent || q.Session == s.Root) && !s.UpdatedAt.Before(q.Since) {
			err = e.tallySession(ctx, &t, s.ID)
		}
	}
	if err != nil {
		return engine.CostReport{}, fmt.Errorf("costs: %w", err)
	}
	return t.report(), nil
}

// tallySession reads a journal. A session that is deleted meanwhile used nothing.
func (e *Engine) tallySession(ctx context.Context, t *tally, id perdure.SessionID) error {
	t.agent, t.asked, t.began = "", "", fired{of: map[string]perdure.ScheduleID{}}
	for after := int64(0); ; {
		var events []perdure.Event
		err := e.view(ctx, func(r store.Reader) (err error) {
			events, err = r.Events(id, after, store.Page)
			return err
		})
		if err != nil || len(events) == 0 {
			return err
		}
		for _, event := range events {
			t.add(event)
		}
		after = events[len(events)-1].Seq
	}
}

// tally adds up.
type tally struct {
	q      engine.CostQuery
	prices budget.Table
	meter  *meter.Meter
	agent  string // of the session that is read
	asked  string // the model that its agent names
	began  fired  // by whom its turns were begun
	lines  map[string]*engine.CostLine
	total  engine.CostLine
}

// fired knows which schedule began the turn that is read.
type fired struct {
	of   map[string]perdure.ScheduleID // by the message that a fire put in, or the task that it started
	turn perdure.ScheduleID            // empty: none
	home bool                          // what comes home next has begun the turn
}

func (d *fired) add(fact perdure.Fact) {
	switch f := fact.(type) {
	case perdure.ScheduleFired:
		d.of[string(f.Fire.Message)], d.of[string(f.Fire.Task)] = f.Fire.Schedule, f.Fire.Schedule
		delete(d.of, "") // it is one of both
	case perdure.TurnStarted:
		d.turn, d.home = d.of[string(f.MessageID)], f.Cause == perdure.CauseDelivery
	case perdure.TaskDelivered:
		for _, id := range f.TaskIDs {
			if d.home {
				d.turn = cmp.Or(d.turn, d.of[string(id)])
			}
		}
		d.home = false
	}
}

func (t *tally) add(e perdure.Event) {
	t.began.add(e.Fact)
	switch f := e.Fact.(type) {
	case perdure.SessionCreated:
		t.agent, t.asked = f.Agent.Name, f.Agent.Model
		if f.Agent.ID != "" {
			t.agent = string(f.Agent.ID)
		}
	case perdure.TurnStarted:
		if f.Model != "" {
			t.asked = f.Model
		}
	case perdure.Generation:
		if e.At.Before(t.q.Since) || f.Usage == (perdure.Usage{}) && f.Error != "" {
			return
		}
		name := orWord(t.meter.Priced(f.Model, t.asked, e.At))
		t.asks(t.line(e, name, f.Tool), f, name, e.At)
		t.asks(&t.total, f, name, e.At)
	case perdure.ToolCompleted:
		if e.At.Before(t.q.Since) || f.Replayed || f.Result.ErrorKind == perdure.ErrorRejected {
			return
		}
		t.calls(t.line(e, "", f.Name), f, e.At)
		t.calls(&t.total, f, e.At)
	}
}

func orWord(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return "(unknown)"
}

// line is the one of the group that an event belongs to.
func (t *tally) line(e perdure.Event, model, tool string) *engine.CostLine {
	key := string(e.Session)
	switch t.q.Group {
	case byAgent:
		key = orWord(t.agent, "(none)")
	case byModel:
		key = orWord(model, "(tools)")
	case byTool:
		key = orWord(tool, "(steps)")
	case bySchedule:
		key = orWord(string(t.began.turn), "(none)")
	case byDay:
		key = e.At.UTC().Format(time.DateOnly)
	}
	if t.lines[key] == nil {
		t.lines[key] = &engine.CostLine{Key: key, Cost: map[budget.Currency]budget.Amount{}}
	}
	return t.lines[key]
}

func (t *tally) asks(l *engine.CostLine, f perdure.Generation, name string, at time.Time) {
	u := perdure.Usage{}.Add(f.Usage) // none is below zero
	l.ModelCalls++
	l.InputTokens += u.InputTokens
	l.CachedTokens += u.CachedTokens
	l.OutputTokens += u.OutputTokens
	l.Milliseconds += f.DurationMS
	costs := t.prices.Costs(name, u, at)
	if len(costs) == 0 {
		l.Unpriced++
		if !slices.Contains(l.Models, name) {
			l.Models = append(l.Models, name)
		}
	}
	spend(l, costs)
}

func (t *tally) calls(l *engine.CostLine, f perdure.ToolCompleted, at time.Time) {
	l.ToolCalls++
	l.Milliseconds += f.DurationMS
	spend(l, t.prices.CallCosts(f.Name, at))
}

func spend(l *engine.CostLine, costs map[budget.Currency]budget.Amount) {
	for currency, cost := range costs {
		if l.Cost == nil {
			l.Cost = map[budget.Currency]budget.Amount{}
		}
		l.Cost[currency] = l.Cost[currency].Plus(cost)
	}
}

func (t *tally) report() engine.CostReport {
	r := engine.CostReport{Group: t.q.Group, AsOf: t.prices.AsOf, Items: []engine.CostLine{}, Total: t.total, Source: costSource}
	if r.Total.Cost == nil {
		r.Total.Cost = map[budget.Currency]budget.Amount{}
	}
	for _, line := range t.lines {
		slices.Sort(line.Models)
		r.Items = append(r.Items, *line)
	}
	slices.Sort(r.Total.Models)
	slices.SortFunc(r.Items, func(a, b engine.CostLine) int {
		if a.Cost[budget.USD] != b.Cost[budget.USD] && t.q.Group != byDay {
			return int(b.Cost[budget.USD]>>1 - a.Cost[budget.USD]>>1)
		}
		return strings.Compare(a.Key, b.Key)
	})
	return r
}
