package memory

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func (v callStore) Get(key perdure.CallKey) (perdure.Call, error) {
	found, ok := v.calls.get(callKey(key))
	if !ok {
		return perdure.Call{}, fmt.Errorf("call %s: %w", key, perdure.NotFound)
	}
	return cloneCall(found.value), nil
}

// List lists rows in the order of their first claim.
func (v callStore) List(filter store.CallFilter) ([]perdure.Call, error) {
	if filter.InDoubt && (filter.Session == "" || filter.State != "") {
		return nil, fmt.Errorf("list calls: %w filter: InDoubt goes with Session, and without State", perdure.Invalid)
	}
	prefix := ""
	if filter.Session != "" {
		prefix = sessionPrefix(filter.Session)
	}
	var found []row[perdure.Call]
	for key, r := range v.calls.from(prefix) {
		if !strings.HasPrefix(key, prefix) {
			break
		}
		inDoubt := r.value.State != perdure.CallSettled || r.value.ResolvedBy != ""
		if (filter.State == "" || r.value.State == filter.State) && (!filter.InDoubt || inDoubt) {
			r.value = cloneCall(r.value)
			found = append(found, r)
		}
	}
	return inOrder(found), nil
}

// Claim inserts the row, or judges the existing one.
func (t callStore) Claim(call perdure.Call,
	ownerLive func(perdure.WorkerID) bool) (perdure.ClaimOutcome, perdure.Call, error) {
	if call.Token == "" {
		return "", perdure.Call{}, fmt.Errorf("claim call %s: %w: there is no token", call.Key, perdure.Invalid)
	}
	r, ok := t.calls.get(callKey(call.Key))
	if ok {
		found := cloneCall(r.value)
		live := found.State == perdure.CallRunning && ownerLive(found.Worker)
		return perdure.DecideClaim(&found, call, live), found, nil
	}
	call.State, call.Executions, call.ClaimedAt = perdure.CallRunning, 1, t.now
	call.Result, call.SettledAt = nil, time.Time{}
	call = cloneCall(call)
	t.calls = t.calls.put(callKey(call.Key), row[perdure.Call]{t.nextPosition(), call})
	return perdure.Claimed, cloneCall(call), nil
}

func (t callStore) TakeOver(old perdure.Call, next perdure.Call) error {
	if next.Token == "" {
		return fmt.Errorf("take over call %s: %w: there is no token", old.Key, perdure.Invalid)
	}
	r, ok := t.calls.get(callKey(old.Key))
	if !ok || r.value.State != perdure.CallRunning || r.value.Token != old.Token {
		return fmt.Errorf("take over call %s: %w: it no longer runs under that token", old.Key, perdure.Lost)
	}
	r.value.Token, r.value.Worker, r.value.Home, r.value.Epoch = next.Token, next.Worker, next.Home, next.Epoch
	r.value.Attempt, r.value.Task, r.value.Executions = next.Attempt, next.Task, next.Executions
	t.calls = t.calls.put(callKey(old.Key), r)
	return nil
}

func (t callStore) Bind(key perdure.CallKey, token perdure.Token, task perdure.TaskID, attempt int) error {
	r, ok := t.calls.get(callKey(key))
	if !ok || r.value.State != perdure.CallRunning || r.value.Token != token {
		return fmt.Errorf("bind call %s to task %s: %w: it no longer runs under that token", key, task, perdure.Lost)
	}
	r.value.Task, r.value.Attempt = task, attempt
	t.calls = t.calls.put(callKey(key), r)
	return nil
}

func (t callStore) Settle(key perdure.CallKey, token perdure.Token, state perdure.CallState,
	result perdure.ToolResult) error {
	if state != perdure.CallSettled && state != perdure.CallUnknown {
		return fmt.Errorf("settle call %s: %w state %q", key, perdure.Invalid, state)
	}
	result, err := stored(result)
	if err != nil {
		return fmt.Errorf("settle call %s: %w", key, err)
	}
	r, ok := t.calls.get(callKey(key))
	switch {
	case !ok:
		return fmt.Errorf("settle call %s: %w", key, perdure.NotFound)
	case r.value.Token == token && r.value.State == state && sameResult(r.value.Result, result):
		return nil
	case r.value.Token != token || r.value.State != perdure.CallRunning:
		return fmt.Errorf("settle call %s: %w: the token does not own a running row", key, perdure.Lost)
	}
	r.value.State, r.value.Result, r.value.SettledAt = state, &result, t.now
	t.calls = t.calls.put(callKey(key), r)
	return nil
}

func (t callStore) Resolve(next perdure.Call, by string) error {
	r, ok := t.calls.get(callKey(next.Key))
	running := next.State == perdure.CallRunning
	switch {
	case running && next.Token == "":
		return fmt.Errorf("resolve call %s: %w: there is no token", next.Key, perdure.Invalid)
	case !running && (next.State != perdure.CallSettled || next.Result == nil):
		return fmt.Errorf("resolve call %s: %w: state %q, with a result: %t", next.Key, perdure.Invalid, next.State,
			next.Result != nil)
	case !ok:
		return fmt.Errorf("resolve call %s: %w", next.Key, perdure.NotFound)
	case r.value.State != perdure.CallUnknown:
		return fmt.Errorf("resolve call %s: %w: it is not unknown", next.Key, perdure.Conflict)
	}
	c := &r.value
	c.State, c.ResolvedBy = next.State, by
	if running {
		c.Token, c.Worker, c.Home, c.Executions = next.Token, next.Worker, next.Home, next.Executions
		c.Result, c.SettledAt = nil, time.Time{}
	} else {
		result, err := stored(*next.Result)
		if err != nil {
			return fmt.Errorf("resolve call %s: %w", next.Key, err)
		}
		c.Result, c.SettledAt = &result, t.now
	}
	t.calls = t.calls.put(callKey(next.Key), r)
	return nil
}

// sessionPrefix is the prefix of the keys of everything that belongs to a session. No id contains a
// NUL.
func sessionPrefix(id perdure.SessionID) string { return string(id) + "\x00" }

func callKey(key perdure.CallKey) string { return sessionPrefix(key.Session) + string(key.Call) }

func sameResult(found *perdure.ToolResult, result perdure.ToolResult) bool {
	if found == nil {
		return false
	}
	a, errA := encode(*found)
	b, errB := encode(result)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

func cloneCall(c perdure.Call) perdure.Call {
	c.Args = clone(c.Args)
	if c.Result != nil {
		r := *c.Result
		r.Result, r.Images, r.ReadTasks = clone(r.Result), slices.Clone(r.Images), slices.Clone(r.ReadTasks)
		r.Metadata = clone(r.Metadata)
		c.Result = &r
	}
	return c
}
