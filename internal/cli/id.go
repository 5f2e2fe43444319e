package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
)

// lastSession is what people type instead of an id for the session that was started last.
const lastSession = "last"

// candidate is a thing that an id may mean.
type candidate struct {
	id    string
	also  string // another id of the same thing; empty: none
	named string // what people call it; empty: nothing
	about string // for people who have to choose
}

// choose returns the one thing whose id begins with what was typed, with or without the noun before it, or that
// is called so (C8).
func choose(noun, typed string, all []candidate) (string, error) {
	var found []candidate
	for _, c := range all {
		switch {
		case typed == "":
		case c.id == typed || c.also == typed:
			return c.id, nil
		case beginsWith(c.id, typed), beginsWith(c.also, typed), strings.EqualFold(c.named, typed):
			found = append(found, c)
		}
	}
	switch len(found) {
	case 1:
		return found[0].id, nil
	case 0:
		return "", &fault{err: perdure.NotFound, what: fmt.Sprintf("there is no %s %q", noun, typed), todo: hint(noun, typed, all)}
	}
	const shown = 10
	lines := []string{"type more of the id of one of these:"}
	for _, c := range found[:min(shown, len(found))] {
		lines = append(lines, strings.TrimSpace("  "+c.id+"  "+clip(strings.Join(strings.Fields(c.about), " "), cellChars)))
	}
	if len(found) > shown {
		lines = append(lines, fmt.Sprintf("and %d more", len(found)-shown))
	}
	return "", &fault{
		err: perdure.Conflict, what: fmt.Sprintf("%q is ambiguous: it may be any of %d %ss", typed, len(found), noun), todo: strings.Join(lines, "\n  "),
	}
}

func beginsWith(id, typed string) bool {
	_, digits, _ := strings.Cut(id, "_")
	return strings.HasPrefix(id, typed) || strings.HasPrefix(digits, typed)
}

// hint says what else may have been meant, and where the names stand.
func hint(noun, typed string, all []candidate) string {
	verb := "list"
	if noun == "budget" {
		verb = "show"
	}
	list := fmt.Sprintf("%s %s %s shows them", program, noun, verb)
	best, distance := "", 3
	for _, c := range all {
		for _, name := range []string{c.id, c.named} {
			if d := editDistance(strings.ToLower(name), strings.ToLower(typed)); name != "" && d < min(distance, len(typed)) {
				best, distance = name, d
			}
		}
	}
	if best == "" {
		return list
	}
	return fmt.Sprintf("did you mean %s? %s", best, list)
}

// editDistance is the number of characters to insert, remove or replace to come from a to b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}

// session finds a session by what was typed.
func (a *app) session(ctx context.Context, eng engine.Engine, typed string) (engine.Session, error) {
	all, err := eng.Sessions(ctx, 0)
	if err != nil {
		return engine.Session{}, fmt.Errorf("list sessions: %w", err)
	}
	if typed == lastSession {
		for _, s := range all {
			if s.Parent == "" { // people speak with whoever has subagents
				return s, nil
			}
		}
		if len(all) == 0 {
			return engine.Session{}, &fault{err: perdure.NotFound, what: "there is no session yet", todo: program + " run --model scripted:FILE PROMPT begins one"}
		}
		return all[0], nil
	}
	var candidates []candidate
	for _, s := range all {
		candidates = append(candidates, candidate{id: string(s.ID), named: s.Title, about: s.Title})
	}
	id, err := choose("session", typed, candidates)
	if errors.Is(err, perdure.NotFound) {
		if found, also := byAgent(ctx, eng, typed, candidates); !errors.Is(also, perdure.NotFound) {
			id, err = found, also
		}
	}
	if err != nil {
		return engine.Session{}, err
	}
	return all[slices.IndexFunc(all, func(s engine.Session) bool { return string(s.ID) == id })], nil
}

// byAgent finds a session by the name of its agent, which only its journal has.
func byAgent(ctx context.Context, eng engine.Journals, typed string, all []candidate) (string, error) {
	all = slices.Clone(all)
	for i := range all {
		first, err := eng.Events(ctx, perdure.SessionID(all[i].id), 0, 1)
		if err != nil {
			return "", fmt.Errorf("read the agent of %s: %w", all[i].id, err)
		}
		if len(first) == 0 {
			continue
		}
		if created, ok := first[0].Fact.(perdure.SessionCreated); ok {
			all[i].named = created.Agent.Name
		}
	}
	return choose("session", typed, all)
}

// task finds a task by what was typed: of its own id, or of its run's.
func (a *app) task(ctx context.Context, eng engine.Tasks, typed string) (perdure.Task, error) {
	all, err := eng.Tasks(ctx, "")
	if err != nil {
		return perdure.Task{}, fmt.Errorf("list tasks: %w", err)
	}
	var candidates []candidate
	for _, t := range all {
		candidates = append(candidates, candidate{id: string(t.ID), also: string(t.Run), named: t.DisplayName, about: string(t.State) + " " + titleOf(t)})
	}
	id, err := choose("task", typed, candidates)
	if err != nil {
		return perdure.Task{}, err
	}
	return all[slices.IndexFunc(all, func(t perdure.Task) bool { return string(t.ID) == id })], nil
}

// approval finds an approval by what was typed.
func (a *app) approval(ctx context.Context, eng engine.Approvals, typed string) (perdure.Approval, error) {
	all, err := eng.Approvals(ctx, engine.ApprovalFilter{})
	if err != nil {
		return perdure.Approval{}, fmt.Errorf("list approvals: %w", err)
	}
	var candidates []candidate
	for _, p := range all {
		candidates = append(candidates, candidate{id: string(p.ID), about: string(p.State) + " " + p.Tool})
	}
	id, err := choose("approval", typed, candidates)
	if err != nil {
		return perdure.Approval{}, err
	}
	return eng.Approval(ctx, perdure.ApprovalID(id)) // whole: in a list its arguments may be redacted
}

// call finds a call by SESSION/CALL, each of which may be a beginning.
func (a *app) call(ctx context.Context, eng engine.Engine, typed string) (perdure.Call, error) {
	session, call, _ := strings.Cut(typed, "/")
	s, err := a.session(ctx, eng, session)
	if err != nil {
		return perdure.Call{}, err
	}
	all, err := eng.Calls(ctx, s.ID)
	if err != nil {
		return perdure.Call{}, fmt.Errorf("list calls of %s: %w", s.ID, err)
	}
	var candidates []candidate
	for _, c := range all {
		candidates = append(candidates, candidate{id: string(c.Key.Call), about: string(c.State) + " " + c.Tool})
	}
	id, err := choose("call", call, candidates)
	if err != nil {
		return perdure.Call{}, err
	}
	return all[slices.IndexFunc(all, func(c perdure.Call) bool { return string(c.Key.Call) == id })], nil
}
