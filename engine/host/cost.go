package host

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

// costSource explains the figures of a cost report.
const costSource = "usage reported by the providers and recorded in the journals, " +
	"at the prices on the day of each call; an estimate of the bill"

// The groups of a cost report.
const (
	bySession  = "session"
	byAgent    = "agent"
	byModel    = "model"
	byTool     = "tool"
	bySchedule = "schedule"
	byDay      = "day"
)

// Costs sums up the usage in the journals. It reads them page by page, so the report is not
// consistent as of one moment. Deleted sessions are not included.
func (e hostBudgets) Costs(ctx context.Context, q engine.CostQuery) (engine.CostReport, error) {
	q.Group = cmp.Or(q.Group, bySession)
	t := tally{
		q: q, meter: e.meter, prices: e.meter.Prices(), lines: map[string]*engine.CostLine{},
		total: engine.CostLine{Key: "total"},
	}
	if !slices.Contains([]string{bySession, byAgent, byModel, byTool, bySchedule, byDay}, q.Group) {
		return engine.CostReport{}, fmt.Errorf("costs: %w group %.40q: "+
			"it must be session, agent, model, tool, schedule or day", perdure.Invalid, q.Group)
	}
	sessions, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]store.Session, error) {
		return r.Sessions().List(listFor(ctx, 0))
	})
	for _, s := range sessions {
		selected := q.Session == "" || q.Session == s.ID || q.Session == s.Parent || q.Session == s.Root
		if err == nil && selected && !s.UpdatedAt.Before(q.Since) {
			err = e.tallySession(ctx, &t, s.ID)
		}
	}
	if err != nil {
		return engine.CostReport{}, fmt.Errorf("costs: %w", err)
	}
	return t.report(), nil
}

// tallySession adds a journal. A session that is deleted in the meantime adds nothing more.
func (e hostBudgets) tallySession(ctx context.Context, t *tally, id perdure.SessionID) error {
	t.agent, t.requestedModel, t.startedBy = "", "", turnSchedule{scheduleOf: map[string]perdure.ScheduleID{}}
	for after := int64(0); ; {
		events, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]perdure.Event, error) {
			return r.Journal().Events(id, after, store.Page)
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

// tally accumulates the lines of a cost report.
type tally struct {
	q              engine.CostQuery
	prices         budget.Table
	meter          *meter.Meter
	agent          string       // of the session being read
	requestedModel string       // the model that its agent or turn requests
	startedBy      turnSchedule // the schedule that started the turn being read
	lines          map[string]*engine.CostLine
	total          engine.CostLine
}

// turnSchedule tracks which schedule started the turn being read.
type turnSchedule struct {
	scheduleOf map[string]perdure.ScheduleID // by the message or task of a fire
	turn       perdure.ScheduleID            // empty: no schedule
	// a delivery started the turn, and TaskDelivered has yet to name its tasks
	awaitsTasks bool
}

func (d *turnSchedule) add(fact perdure.Fact) {
	switch f := fact.(type) {
	case perdure.ScheduleFired:
		d.scheduleOf[string(f.Fire.Message)], d.scheduleOf[string(f.Fire.Task)] = f.Fire.Schedule, f.Fire.Schedule
		delete(d.scheduleOf, "") // a fire has either a message or a task
	case perdure.TurnStarted:
		d.turn, d.awaitsTasks = d.scheduleOf[string(f.MessageID)], f.Cause == perdure.CauseDelivery
	case perdure.TaskDelivered:
		for _, id := range f.TaskIDs {
			if d.awaitsTasks {
				d.turn = cmp.Or(d.turn, d.scheduleOf[string(id)])
			}
		}
		d.awaitsTasks = false
	}
}

func (t *tally) add(e perdure.Event) {
	t.startedBy.add(e.Fact)
	switch f := e.Fact.(type) {
	case perdure.SessionCreated:
		t.agent, t.requestedModel = f.Agent.Name, f.Agent.Model
		if f.Agent.ID != "" {
			t.agent = string(f.Agent.ID)
		}
	case perdure.TurnStarted:
		if f.Model != "" {
			t.requestedModel = f.Model
		}
	case perdure.Generation:
		if e.At.Before(t.q.Since) || f.Usage == (perdure.Usage{}) && f.Error != "" {
			return
		}
		name := firstKnown(t.meter.Priced(f.Model, t.requestedModel, e.At))
		t.addModelCall(t.line(e, name, f.Tool), f, name, e.At)
		t.addModelCall(&t.total, f, name, e.At)
	case perdure.ToolCompleted:
		if e.At.Before(t.q.Since) || f.Replayed || f.Result.ErrorKind == perdure.ErrorRejected {
			return
		}
		t.addToolCall(t.line(e, "", f.Name), f, e.At)
		t.addToolCall(&t.total, f, e.At)
	}
}

func firstKnown(words ...string) string {
	for _, w := range words {
		if w != "" {
			return w
		}
	}
	return "(unknown)"
}

// line returns the line of the group that an event belongs to.
func (t *tally) line(e perdure.Event, model, tool string) *engine.CostLine {
	key := string(e.Session)
	switch t.q.Group {
	case byAgent:
		key = firstKnown(t.agent, "(none)")
	case byModel:
		key = firstKnown(model, "(tools)")
	case byTool:
		key = firstKnown(tool, "(steps)")
	case bySchedule:
		key = firstKnown(string(t.startedBy.turn), "(none)")
	case byDay:
		key = e.At.UTC().Format(time.DateOnly)
	}
	if t.lines[key] == nil {
		t.lines[key] = &engine.CostLine{Key: key, Cost: map[budget.Currency]budget.Amount{}}
	}
	return t.lines[key]
}

func (t *tally) addModelCall(l *engine.CostLine, f perdure.Generation, name string, at time.Time) {
	u := perdure.Usage{}.Add(f.Usage) // negative counts become 0
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
	addCosts(l, costs)
}

func (t *tally) addToolCall(l *engine.CostLine, f perdure.ToolCompleted, at time.Time) {
	l.ToolCalls++
	l.Milliseconds += f.DurationMS
	addCosts(l, t.prices.ToolCosts(f.Name, at))
}

func addCosts(l *engine.CostLine, costs map[budget.Currency]budget.Amount) {
	for currency, cost := range costs {
		if l.Cost == nil {
			l.Cost = map[budget.Currency]budget.Amount{}
		}
		l.Cost[currency] = l.Cost[currency].Plus(cost)
	}
}

func (t *tally) report() engine.CostReport {
	r := engine.CostReport{
		Group: t.q.Group, AsOf: t.prices.AsOf, Items: []engine.CostLine{}, Total: t.total, Source: costSource,
	}
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
