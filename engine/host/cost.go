package host

import (
	"cmp"
	"context"
	"errors"
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
	byTurn     = "turn"
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
		q: q, meter: e.meter, prices: e.meter.Prices(), lines: map[costKey]*engine.CostLine{},
		total: engine.CostLine{Key: "total"},
	}
	if q.Split != "" && q.Split != byModel && q.Split != byTool {
		return engine.CostReport{}, fmt.Errorf("costs: %w split %.40q: it must be model or tool", perdure.Invalid, q.Split)
	}
	if !slices.Contains([]string{bySession, byTurn, byAgent, byModel, byTool, bySchedule, byDay}, q.Group) {
		return engine.CostReport{}, fmt.Errorf("costs: %w group %.40q: "+
			"it must be session, turn, agent, model, tool, schedule or day", perdure.Invalid, q.Group)
	}
	sessions, err := store.Read(ctx, e.cfg.Store, func(r store.Reader) ([]store.Session, error) {
		return costSessions(r, listFor(ctx, 0), q.Session)
	})
	for _, s := range sessions {
		if err == nil && !s.UpdatedAt.Before(q.Since) {
			err = e.tallySession(ctx, &t, s.ID)
		}
	}
	if err != nil {
		return engine.CostReport{}, fmt.Errorf("costs: %w", err)
	}
	return t.report(), nil
}

// costSessions returns the sessions of a report: all that the caller may see, or one of them with
// its subagents, for which no other row is read.
func costSessions(r store.Reader, seen store.SessionFilter, only perdure.SessionID) ([]store.Session, error) {
	if only == "" {
		return r.Sessions().List(seen)
	}
	top, err := r.Sessions().Get(only)
	if errors.Is(err, perdure.NotFound) || err == nil && seen.OneOrg && seen.Org != top.Org {
		return nil, nil
	}
	tree := []store.Session{top}
	for i := 0; i < len(tree) && err == nil; i++ { // tree grows
		var children []store.Session
		children, err = r.Sessions().List(store.SessionFilter{Parent: tree[i].ID})
		tree = append(tree, children...)
	}
	return tree, err
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
	lines          map[costKey]*engine.CostLine
	total          engine.CostLine
}

// costKey is the member of the group, and the part of the split, that a line is for.
type costKey struct{ member, part string }

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
		if !t.covers(e.At) || f.Usage == (perdure.Usage{}) && f.Error != "" {
			return
		}
		name := firstKnown(t.meter.Priced(f.Model, t.requestedModel, e.At))
		t.addModelCall(t.line(e, name, f.Tool), f, name, e.At)
		t.addModelCall(&t.total, f, name, e.At)
	case perdure.ToolCompleted:
		if !t.covers(e.At) || f.Replayed || f.Result.ErrorKind == perdure.ErrorRejected {
			return
		}
		t.addToolCall(t.line(e, "", f.Name), f, e.At)
		t.addToolCall(&t.total, f, e.At)
	}
}

// covers reports whether the report includes usage at a moment.
func (t *tally) covers(at time.Time) bool {
	return !at.Before(t.q.Since) && (t.q.Until.IsZero() || at.Before(t.q.Until))
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
	case byTurn:
		key = firstKnown(string(e.Turn), "(none)")
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
	k := costKey{member: key}
	switch t.q.Split {
	case byModel:
		k.part = firstKnown(model, "(tools)")
	case byTool:
		k.part = firstKnown(tool, "(steps)")
	}
	if t.lines[k] == nil {
		t.lines[k] = &engine.CostLine{Key: k.member, Part: k.part, Cost: map[budget.Currency]budget.Amount{}}
	}
	return t.lines[k]
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
	l.Cost = plusCosts(l.Cost, costs)
	if f.Error != "" && f.Error != perdure.CodeInterrupted {
		l.FailedCalls++
		l.FailedCost = plusCosts(l.FailedCost, costs)
		if len(costs) == 0 {
			l.FailedUnpriced++
		}
	}
}

func (t *tally) addToolCall(l *engine.CostLine, f perdure.ToolCompleted, at time.Time) {
	l.ToolCalls++
	l.Milliseconds += f.DurationMS
	l.Cost = plusCosts(l.Cost, t.prices.ToolCosts(f.Name, at))
}

// plusCosts adds costs to a sum, which may be nil, and returns it.
func plusCosts(sum, costs map[budget.Currency]budget.Amount) map[budget.Currency]budget.Amount {
	for currency, cost := range costs {
		if sum == nil {
			sum = map[budget.Currency]budget.Amount{}
		}
		sum[currency] = sum[currency].Plus(cost)
	}
	return sum
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
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(a.Part, b.Part))
	})
	return r
}
