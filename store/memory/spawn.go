package memory

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func (v spawnStore) Get(key perdure.CallKey) (store.Spawn, error) {
	r, ok := v.spawns.get(callKey(key))
	if !ok {
		return store.Spawn{}, fmt.Errorf("spawn %s: %w", key, perdure.NotFound)
	}
	return cloneSpawn(r.value), nil
}

// OfChild returns the handle under which a child is registered.
func (v spawnStore) OfChild(child perdure.SessionID) (store.Spawn, error) {
	for _, r := range v.spawns.from("") {
		if child != "" && r.value.Child == child {
			return cloneSpawn(r.value), nil
		}
	}
	return store.Spawn{}, fmt.Errorf("spawn of child %s: %w", child, perdure.NotFound)
}

// List lists the handles of a tree in the order of their claims.
func (v spawnStore) List(root perdure.SessionID) ([]store.Spawn, error) {
	var found []row[store.Spawn]
	for _, r := range v.spawns.from("") {
		if root == "" || root == r.value.Root {
			r.value = cloneSpawn(r.value)
			found = append(found, r)
		}
	}
	return inOrder(found), nil
}

func (v spawnStore) Count(root perdure.SessionID) (count store.SpawnCount, err error) {
	for _, r := range v.spawns.from("") {
		if root != "" && root != r.value.Root {
			continue
		}
		count.Total++
		if r.value.State.Live() {
			count.Live++
		}
	}
	return count, nil
}

// Claim adds the handle, or judges the existing one.
func (t spawnStore) Claim(s store.Spawn) (store.SpawnOutcome, store.Spawn, error) {
	if s.Token == "" {
		return "", store.Spawn{}, fmt.Errorf("claim spawn %s: %w: it has no token", s.Key, perdure.Invalid)
	}
	if found, err := t.Spawns().Get(s.Key); err == nil {
		return found.Judge(s.Token), found, nil
	}
	fresh := cloneSpawn(store.Spawn{
		Key: s.Key, Root: s.Root, Depth: s.Depth, Task: s.Task, Name: s.Name, Prompt: s.Prompt,
		Schema: s.Schema, Token: s.Token,
		State: store.SpawnPending, CreatedAt: t.now,
	})
	t.spawns = t.spawns.put(callKey(s.Key), row[store.Spawn]{t.nextPosition(), fresh})
	return store.SpawnClaimed, cloneSpawn(fresh), nil
}

func (t spawnStore) RegisterChild(key perdure.CallKey, token perdure.Token, child perdure.SessionID) error {
	if child == "" {
		return fmt.Errorf("register child of spawn %s: %w: there is no child", key, perdure.Invalid)
	}
	r, ok := t.spawns.get(callKey(key))
	switch {
	case ok && r.value.Token == token && r.value.State == store.SpawnRunning && r.value.Child == child:
		return nil
	case !ok || r.value.Token != token || r.value.State != store.SpawnPending:
		return fmt.Errorf("register child %s of spawn %s: %w: it is no longer pending under that token", child, key,
			perdure.Lost)
	}
	if _, err := t.Spawns().OfChild(child); err == nil {
		return fmt.Errorf("register child %s of spawn %s: %w: the child belongs to another handle", child, key,
			perdure.Conflict)
	}
	r.value.State, r.value.Child = store.SpawnRunning, child
	t.spawns = t.spawns.put(callKey(key), r)
	return nil
}

// Repair counts an answer that did not match the schema.
func (t spawnStore) Repair(key perdure.CallKey, token perdure.Token) (int, error) {
	r, ok := t.spawns.get(callKey(key))
	if !ok || r.value.Token != token || r.value.State != store.SpawnRunning {
		return 0, fmt.Errorf("repair spawn %s: %w: it no longer runs under that token", key, perdure.Lost)
	}
	r.value.Repairs++
	t.spawns = t.spawns.put(callKey(key), r)
	return r.value.Repairs, nil
}

func (t spawnStore) Settle(key perdure.CallKey, token perdure.Token, status perdure.TaskState,
	result json.RawMessage) error {
	if !status.Terminal() {
		return fmt.Errorf("settle spawn %s: %w status %q", key, perdure.Invalid, status)
	}
	r, ok := t.spawns.get(callKey(key))
	switch {
	case ok && r.value.Token == token && r.value.Status == status && bytes.Equal(r.value.Result, result):
		return nil
	case !ok || r.value.Token != token || !r.value.State.Live():
		return fmt.Errorf("settle spawn %s: %w: it is no longer open under that token", key, perdure.Lost)
	}
	r.value.State, r.value.Status, r.value.Result, r.value.SettledAt = store.SpawnSettled, status, clone(result), t.now
	t.spawns = t.spawns.put(callKey(key), r)
	return nil
}

func cloneSpawn(s store.Spawn) store.Spawn {
	s.Schema, s.Result = clone(s.Schema), clone(s.Result)
	return s
}
