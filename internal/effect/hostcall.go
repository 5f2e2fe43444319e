package effect

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/admission"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/taskrecord"
	"github.com/perdure/perdure/internal/effect/taskrun"
	"github.com/perdure/perdure/internal/secretargs"
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// HostCallRequest asks for a call that no model makes: an MCP client or a program makes it.
type HostCallRequest struct {
	Session perdure.SessionID
	Tool    string
	Args    json.RawMessage
	Title   string // of its task; empty: the tool's display name
	Key     string // idempotency key of the caller: the same key is the same call; empty: none
	// Join applies without a Key. A call with the same content that started less than Join ago, and
	// whose reply was never written in full, is joined instead of starting a new one. 0: never.
	Join time.Duration
	// KeyIsRequestID says that Key only identifies this request. A new key does not mean that a new
	// effect is intended.
	KeyIsRequestID bool
}

// HostCall is a call of a host. Its id is its handle: 128 bits that cannot be guessed.
type HostCall struct {
	ID perdure.CallID
	// the zero task: the call was refused before anything was recorded, or the task was pruned
	Task   perdure.Task
	Result *perdure.ToolResult // set once the call has ended or was refused
	Joined bool                // the call existed before
}

// hostCalls finds calls of hosts whose reply was never written in full. The zero value is empty:
// the calls of earlier processes are read when a session is first used.
type hostCalls struct {
	mu       sync.Mutex
	sessions map[perdure.SessionID]*undeliveredCalls // guarded by mu
}

// undeliveredCalls holds the calls of one session that can be joined.
type undeliveredCalls struct {
	mu    sync.Mutex // held during the commit of a call, so that two calls of the same content become one
	read  bool
	calls map[string]perdure.CallID // by fingerprint
}

// forget removes a call that can no longer be joined.
func (u *undeliveredCalls) forget(fingerprint string, id perdure.CallID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls[fingerprint] == id {
		delete(u.calls, fingerprint)
	}
}

func (h *hostCalls) of(id perdure.SessionID) *undeliveredCalls {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions == nil {
		h.sessions = map[perdure.SessionID]*undeliveredCalls{}
	}
	if h.sessions[id] == nil {
		h.sessions[id] = &undeliveredCalls{calls: map[string]perdure.CallID{}}
	}
	return h.sessions[id]
}

// StartHostCall runs a tool as a task, for a caller that is not a model. The call is durable when
// StartHostCall returns, and needs no slot of its session. Conflict: the key belongs to another
// call. NotFound: no such tool or session.
func (e *Effects) StartHostCall(ctx context.Context, o HostCallRequest) (HostCall, error) {
	target, ok := e.toolset.Find(o.Tool)
	if !ok {
		return HostCall{}, fmt.Errorf("call %s: %w", o.Tool, perdure.NotFound)
	}
	made, err := e.hostCall(ctx, o, target)
	if err != nil {
		return HostCall{}, fmt.Errorf("call %s: %w", o.Tool, err)
	}
	return made, nil
}

func (e *Effects) hostCall(ctx context.Context, o HostCallRequest, target tool.Tool) (HostCall, error) {
	row, owner, err := e.hostSession(ctx, o.Session)
	if err != nil {
		return HostCall{}, err
	}
	if len(o.Args) == 0 {
		o.Args = json.RawMessage("{}")
	}
	spec := target.Spec()
	// with secrets, two different calls may be recorded alike
	secret := secretargs.HasSecrets(spec.Parameters) || secretargs.HasKnownMark(e.secrets.Recorded(o.Session, target, o.Args))
	if o.Key == "" && o.Join > 0 && !secret && spec.Class != perdure.Pure {
		known := e.hosts.of(o.Session)
		known.mu.Lock()
		defer known.mu.Unlock()
		found, fingerprint, err := e.findJoinable(ctx, known, o)
		if found.ID != "" || err != nil {
			return found, err
		}
		made, err := e.makeHostCall(ctx, o, hostCaller{target, row, owner})
		if err == nil && made.Task.ID != "" {
			known.calls[fingerprint] = made.ID
		}
		return made, err
	}
	return e.makeHostCall(ctx, o, hostCaller{target, row, owner})
}

// hostCaller is the caller of a host call, and its tool.
type hostCaller struct {
	target tool.Tool
	row    store.Session
	owner  *core.Owner
}

func (e *Effects) hostSession(ctx context.Context, id perdure.SessionID) (row store.Session, o *core.Owner, err error) {
	return row, o, e.core.Store.View(ctx, func(r store.Reader) error {
		if row, err = r.Sessions().Get(id); err != nil {
			return err
		}
		if o, err = core.ReadOwner(r, id); err == nil {
			o.Trace = telemetry.TraceParent(ctx) // the caller's: a host call has no turn with a traceparent
		}
		return err
	})
}

// findJoinable finds the call of the same content whose reply was never written in full.
func (e *Effects) findJoinable(ctx context.Context, known *undeliveredCalls,
	o HostCallRequest) (found HostCall, fingerprint string, err error) {
	if fingerprint, err = perdure.Fingerprint(o.Tool, o.Args); err != nil {
		return found, "", nil //nolint:nilerr // invalid JSON is refused later, with the tool's own error
	}
	if !known.read || e.core.Shared { // other workers may have added calls
		if err := e.readUndelivered(ctx, known, o.Session); err != nil {
			return found, fingerprint, err
		}
	}
	id, ok := known.calls[fingerprint]
	if !ok {
		return found, fingerprint, nil
	}
	found, err = e.FindHostCall(ctx, perdure.CallKey{Session: o.Session, Call: id})
	switch {
	case errors.Is(err, perdure.NotFound), err == nil && found.Task.ID == "":
	case err != nil:
		return HostCall{}, fingerprint, err
	case found.Task.RepliedAt.IsZero() && time.Since(found.Task.CreatedAt) < o.Join:
		found.Joined = true
		return found, fingerprint, nil
	}
	delete(known.calls, fingerprint)
	return HostCall{}, fingerprint, nil
}

// readUndelivered reads the calls of earlier processes. Of several calls with the same content, the
// mergeUpdates counts.
func (e *Effects) readUndelivered(ctx context.Context, known *undeliveredCalls, id perdure.SessionID) error {
	var tasks []perdure.Task
	err := e.core.Store.View(ctx, func(r store.Reader) (err error) {
		tasks, err = r.Tasks().List(store.TaskFilter{Session: id})
		return err
	})
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if t.ReadByCaller() && t.RepliedAt.IsZero() {
			known.calls[t.ArgsHash] = t.Call
		}
	}
	known.read = true
	return nil
}

// makeHostCall checks a call like any other, and commits its task together with its claim.
func (e *Effects) makeHostCall(ctx context.Context, o HostCallRequest, by hostCaller) (HostCall, error) {
	spec := by.target.Spec()
	key := perdure.CallKey{Session: o.Session, Call: hostCallID(by.row.Secret, o.Key)}
	if o.Key != "" {
		if known, err := e.madeBefore(ctx, key, o, by); known.ID != "" || err != nil {
			return known, err
		}
	}
	args, _ := e.secrets.Extract(key, by.target, o.Args)
	made := HostCall{}
	defer func() {
		if made.Task.ID == "" { // nothing will ever end the call
			e.secrets.Vault.Drop(key)
		}
	}()
	call := tool.Call{Session: o.Session, ID: key.Call, Tool: o.Tool, Args: args, Class: spec.Class}
	if fault := e.admission.ArgumentFault(by.target, call); fault != nil {
		fault.ErrorKind, fault.Refused = perdure.ErrorRejected, true
		return refuseHostCall(key.Call, *fault)
	}
	// what the caller has read is not known, so it counts as untrusted
	j := e.admission.Judge(ctx, by.owner.Agent, by.target, call, true)
	if j.Refusal != nil {
		return refuseHostCall(key.Call, *j.Refusal)
	}
	if !bytes.Equal(j.Args, args) {
		j.Args, _ = e.secrets.Extract(key, by.target, j.Args)
	}
	e.secrets.Vault.KeepAcrossTurns(key)
	fingerprint, err := perdure.Fingerprint(o.Tool, j.Args)
	if err != nil {
		return HostCall{}, err
	}
	task := e.records.OfCall(taskrecord.Call{
		Owner: by.owner, At: by.owner.Created, Secret: by.row.Secret,
		Name:   cmp.Or(secretargs.MaskKnown(e.secrets.Known(o.Session), o.Title), cmp.Or(spec.DisplayName, spec.Name)),
		Origin: perdure.OriginHost,
		Row:    perdure.Call{Key: key, Tool: o.Tool, Args: j.Args, Fingerprint: fingerprint, Class: spec.Class},
	})
	task.Delivery, task.Wake, task.Spec.SignalOnCompletion = perdure.Manual, perdure.WakeNone, false
	if task.ArgsHash, err = perdure.Fingerprint(o.Tool, args); err != nil { // as requested, before hooks rewrote it
		return HostCall{}, err
	}
	started, err := e.commitHostCall(ctx, task, hostStart{owner: by.owner, permissions: j.Permissions,
		withhold: o.Key == "" || o.KeyIsRequestID})
	var same *admission.DuplicateError
	if errors.As(err, &same) {
		found, err := e.FindHostCall(ctx, same.By.Key)
		found.Joined = true
		return found, err
	}
	var full *perdure.NoSlot
	if errors.As(err, &full) { // a budget refuses
		refused := tool.Error(full.Text)
		refused.ErrorKind, refused.Refused = perdure.ErrorRejected, true
		return refuseHostCall(key.Call, refused)
	}
	made = HostCall{ID: key.Call, Task: started}
	return made, err
}

func refuseHostCall(id perdure.CallID, r tool.Result) (HostCall, error) {
	record, _ := r.Record(id) // the text of a refusal is a tool error's
	record.NeverStarted = true
	return HostCall{ID: id, Result: &record}, nil
}

// madeBefore finds the call of a key. Conflict: the key belongs to a different call.
func (e *Effects) madeBefore(ctx context.Context, key perdure.CallKey, o HostCallRequest, by hostCaller) (HostCall, error) {
	found, err := e.FindHostCall(ctx, key)
	if errors.Is(err, perdure.NotFound) {
		return HostCall{}, nil
	}
	if err != nil || found.Task.ID == "" {
		return found, err
	}
	if fingerprint, err := perdure.Fingerprint(o.Tool, e.secrets.Recorded(o.Session, by.target, o.Args)); err != nil ||
		fingerprint != found.Task.ArgsHash {
		return HostCall{}, fmt.Errorf("%w: the key was used for a call with another tool or other arguments",
			perdure.Conflict)
	}
	found.Joined = true
	return found, nil
}

// commitHostCall commits a host's call. It runs at once, or waits in the queue of the process or
// for an approval.
func (e *Effects) commitHostCall(ctx context.Context, task perdure.Task, starter hostStart) (perdure.Task, error) {
	if err := e.tasks.Prepare(ctx, task, 1); err != nil {
		return task, err
	}
	var claimed perdure.Call
	stored := task
	starter.works = e.core.EngineRunning()
	e.tasks.Starting.Add(task.ID)
	err := e.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		stored, claimed, err = e.hostCallInTx(tx, task, starter)
		return err
	})
	if claimed.Token != "" && (err == nil || e.tasks.OwnsClaim(ctx, claimed)) {
		e.tasks.Run(taskrun.Claimed{Task: stored, Row: claimed, Owner: starter.owner}, taskrun.FreshTask)
		return stored, nil
	}
	e.tasks.Starting.Drop(task.ID)
	e.core.SlotFreed() // a slot may have become free before the call was queued
	return stored, err
}

// hostStart is what the commit of a host's call needs besides the task.
type hostStart struct {
	owner       *core.Owner
	permissions []perdure.Permission // an approval is needed for them first
	// withhold refuses the call while the outcome of an earlier call with the same content is
	// unknown.
	withhold bool
	// works says that the engine runs. Before that its worker is not registered, and other workers
	// would treat its claims as those of a dead worker.
	works bool
}

// hostCallInTx is the commit of commitHostCall. A call that cannot start now is queued.
func (e *Effects) hostCallInTx(tx store.Tx, task perdure.Task, by hostStart) (perdure.Task, perdure.Call, error) {
	if stored, err := tx.Tasks().Get(task.Session, task.ID); err == nil {
		return stored, perdure.Call{}, nil // committed before
	}
	if by.withhold {
		if err := e.admission.WithholdTask(tx.Reader(), task, admission.Repeat{Asked: task.ArgsHash, Resolved: true}); err != nil {
			return task, perdure.Call{}, err
		}
	}
	if err := e.records.Reserve(tx, by.owner, task); err != nil {
		return task, perdure.Call{}, err
	}
	if len(by.permissions) > 0 {
		asked, err := e.records.AwaitApproval(tx, task, by.permissions)
		return asked.Task, perdure.Call{}, err
	}
	now := tx.Now()
	task.State, task.CreatedAt, task.UpdatedAt, task.DetachedAt = perdure.TaskQueued, now, now, now
	_, ofProcess := e.core.Runner.SlotsInUse(task.Session)
	free := by.works && (e.core.SlotsPerProcess == 0 || ofProcess < e.core.SlotsPerProcess)
	if free {
		task.State, task.StateDetail, task.Worker, task.Executions = perdure.TaskRunning, "Starting", e.core.Worker, 1
		task.StartedAt, task.HeartbeatAt, task.DeadlineAt = now, now, now.Add(e.toolset.DeadlineOf(task))
	}
	events := []perdure.Event{taskrecord.Event(task, perdure.TaskCreated{Task: task})}
	core.Stamp(events, now)
	if err := tx.Journal().Append(task.Session, events); err != nil {
		return task, perdure.Call{}, err
	}
	if _, _, err := tx.Tasks().Create(task); err != nil || !free {
		return task, perdure.Call{}, err
	}
	claimed, err := e.records.Claim(tx, task)
	return task, claimed, err
}

// FindHostCall returns a host's call. NotFound: the session has no call with this handle.
func (e *Effects) FindHostCall(ctx context.Context, key perdure.CallKey) (found HostCall, err error) {
	err = e.core.Store.View(ctx, func(r store.Reader) (err error) {
		found, err = findHostCall(r, key)
		return err
	})
	if err != nil {
		return HostCall{}, fmt.Errorf("call %s: %w", key, err)
	}
	return found, nil
}

func findHostCall(r store.Reader, key perdure.CallKey) (HostCall, error) {
	found := HostCall{ID: key.Call}
	call, missing := r.Calls().Get(key)
	if missing != nil && !errors.Is(missing, perdure.NotFound) {
		return found, missing
	}
	id := call.Task // set once the call was claimed
	if id == "" {
		var err error
		if id, err = hostTask(r, key); err != nil {
			return found, err
		}
	}
	task, err := r.Tasks().Get(key.Session, id)
	pruned := errors.Is(err, perdure.NotFound)
	switch {
	case err != nil && !pruned:
		return found, err
	case pruned && missing != nil:
		return found, missing
	}
	if found.Task = task; !pruned && !task.State.Terminal() {
		return found, nil
	}
	switch {
	case missing != nil:
		ended := neverRan(task)
		found.Result = &ended
	case call.Result != nil:
		found.Result = call.Result
	}
	return found, nil
}

// hostTask returns the task id of a host's call, which derives from the call id.
func hostTask(r store.Reader, key perdure.CallKey) (perdure.TaskID, error) {
	row, err := r.Sessions().Get(key.Session)
	if err != nil {
		return "", err
	}
	by, err := core.ReadOwner(r, key.Session)
	if err != nil {
		return "", err
	}
	order := taskrecord.Request{At: by.Created, Task: perdure.Task{Session: key.Session, Call: key.Call}}
	return order.WithIDs(row.Secret).ID, nil
}

// neverRan is the result of a call that ended before it was claimed: it was denied, or canceled
// while it waited.
func neverRan(t perdure.Task) perdure.ToolResult {
	if t.State == perdure.TaskCanceled || t.Error == nil {
		return perdure.Refused(t.Call, perdure.ErrorCanceled, cmp.Or(t.Summary, "Canceled by request."))
	}
	return perdure.Refused(t.Call, t.Error.Kind, t.Error.Message)
}

// AcknowledgeHostCall records that the reply to a call was written in full, so that the call is no
// longer joined. Calling it again does nothing.
func (e *Effects) AcknowledgeHostCall(ctx context.Context, key perdure.CallKey) error {
	var found HostCall
	err := e.core.Store.View(ctx, func(r store.Reader) error {
		call, err := r.Calls().Get(key)
		if err == nil && call.Class == perdure.Pure { // pure calls are never joined
			return nil
		}
		found, err = findHostCall(r, key)
		return err
	})
	if err != nil {
		return fmt.Errorf("call %s: %w", key, err)
	}
	reported := !found.Task.RepliedAt.IsZero() && !found.Task.RepliedAt.Before(found.Task.ResolvedAt)
	if found.Task.ID == "" || reported || found.Task.Class == perdure.Pure {
		return nil
	}
	err = e.core.Store.InTx(ctx, func(tx store.Tx) error {
		now, err := tx.Tasks().Get(key.Session, found.Task.ID)
		if err != nil {
			return err
		}
		_, err = tx.Tasks().Update(key.Session, now.ID, perdure.TaskUpdate{Attempt: now.Attempt, Replied: true})
		return err
	})
	if err != nil {
		return fmt.Errorf("record reply of call %s: %w", key, err)
	}
	e.hosts.of(key.Session).forget(found.Task.ArgsHash, key.Call)
	return nil
}

// hostCallID returns the handle of a call, derived from the caller's key or random. A derived
// handle cannot be guessed either, because it is keyed with the session's secret.
func hostCallID(secret perdure.Secret, key string) perdure.CallID {
	var b [16]byte
	if key == "" {
		rand.Read(b[:]) // never fails
	} else {
		mac := hmac.New(sha256.New, secret[:])
		mac.Write([]byte("perdure/call/1\x00" + key))
		copy(b[:], mac.Sum(nil))
	}
	return perdure.CallID("call_" + hex.EncodeToString(b[:]))
}
