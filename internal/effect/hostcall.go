package effect

import (
	"bytes"
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
	"github.com/perdure/perdure/internal/telemetry"
	"github.com/perdure/perdure/internal/veil"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/tool"
)

// HostOrder asks for a call that no model made: an MCP client did, or a program.
type HostOrder struct {
	Session perdure.SessionID
	Tool    string
	Args    json.RawMessage
	Title   string        // of its task; empty: the tool's display name
	Key     string        // the caller's own: the same key is the same call; empty: none
	Join    time.Duration // without a key: a call of the same content, whose reply was not written whole since then, is this one; 0: none
	// Unnamed says that Key only tells this request from others, and does not mean a new effect.
	Unnamed bool
}

// HostCall is such a call. Its id is its handle: 128 bits that nobody guesses.
type HostCall struct {
	ID     perdure.CallID
	Task   perdure.Task        // the zero task: it was refused before anything was recorded, or was pruned
	Result *perdure.ToolResult // once it has ended, or was refused
	Joined bool                // it was there before
}

// hostCalls finds again the calls of hosts whose reply was not written whole. The zero value knows nothing yet: what a
// former process left is read when a session is first asked for.
type hostCalls struct {
	mu       sync.Mutex
	sessions map[perdure.SessionID]*untold // guarded by mu
}

// untold is the calls of one session that can be joined.
type untold struct {
	mu    sync.Mutex // held over the commit of a call, so that two of the same content are one
	read  bool
	calls map[string]perdure.CallID // by fingerprint
}

// forget leaves out a call that is joined no more.
func (u *untold) forget(print string, id perdure.CallID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls[print] == id {
		delete(u.calls, print)
	}
}

func (h *hostCalls) of(id perdure.SessionID) *untold {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions == nil {
		h.sessions = map[perdure.SessionID]*untold{}
	}
	if h.sessions[id] == nil {
		h.sessions[id] = &untold{calls: map[string]perdure.CallID{}}
	}
	return h.sessions[id]
}

// StartHostCall runs a tool as a task, for a caller that is no model. It is durable when StartHostCall returns (M1), and
// takes none of its session's places (BG16). Conflict: the key stands for another call. NotFound: no such tool or session.
func (e *Effects) StartHostCall(ctx context.Context, o HostOrder) (HostCall, error) {
	target, ok := e.tool(o.Tool)
	if !ok {
		return HostCall{}, fmt.Errorf("call %s: %w", o.Tool, perdure.NotFound)
	}
	made, err := e.hostCall(ctx, o, target)
	if err != nil {
		return HostCall{}, fmt.Errorf("call %s: %w", o.Tool, err)
	}
	return made, nil
}

func (e *Effects) hostCall(ctx context.Context, o HostOrder, target tool.Tool) (HostCall, error) {
	row, owner, err := e.hostSession(ctx, o.Session)
	if err != nil {
		return HostCall{}, err
	}
	if len(o.Args) == 0 {
		o.Args = json.RawMessage("{}")
	}
	spec := target.Spec()
	secret := veil.Has(spec.Parameters) || veil.Stands(e.recorded(o.Session, target, o.Args)) // two of them may be recorded alike
	if o.Key == "" && o.Join > 0 && !secret && spec.Class != perdure.Pure {
		known := e.hosts.of(o.Session)
		known.mu.Lock()
		defer known.mu.Unlock()
		found, print, err := e.joined(ctx, known, o)
		if found.ID != "" || err != nil {
			return found, err
		}
		made, err := e.makeHostCall(ctx, o, hostCaller{target, row, owner})
		if err == nil && made.Task.ID != "" {
			known.calls[print] = made.ID
		}
		return made, err
	}
	return e.makeHostCall(ctx, o, hostCaller{target, row, owner})
}

// hostCaller is who calls, and what.
type hostCaller struct {
	target tool.Tool
	row    store.Session
	owner  *owner
}

func (e *Effects) hostSession(ctx context.Context, id perdure.SessionID) (row store.Session, o *owner, err error) {
	return row, o, e.cfg.Store.View(ctx, func(r store.Reader) error {
		if row, err = r.Session(id); err != nil {
			return err
		}
		if o, err = readOwner(r, id); err == nil {
			o.trace = telemetry.Parent(ctx) // of whoever calls: there is no turn that it could be of
		}
		return err
	})
}

// joined finds the call of the same content whose reply was never written whole (M4).
func (e *Effects) joined(ctx context.Context, known *untold, o HostOrder) (found HostCall, print string, err error) {
	if print, err = perdure.Fingerprint(o.Tool, o.Args); err != nil {
		return found, "", nil //nolint:nilerr // arguments that are no JSON are refused with the tool's own words
	}
	if !known.read || e.cfg.Shared { // others may have made it meanwhile
		if err := e.readUntold(ctx, known, o.Session); err != nil {
			return found, print, err
		}
	}
	id, ok := known.calls[print]
	if !ok {
		return found, print, nil
	}
	found, err = e.FindHostCall(ctx, perdure.CallKey{Session: o.Session, Call: id})
	switch {
	case errors.Is(err, perdure.NotFound), err == nil && found.Task.ID == "":
	case err != nil:
		return HostCall{}, print, err
	case found.Task.ToldAt.IsZero() && time.Since(found.Task.CreatedAt) < o.Join:
		found.Joined = true
		return found, print, nil
	}
	delete(known.calls, print)
	return HostCall{}, print, nil
}

// readUntold reads what former processes left. Later calls of the same content stand for earlier ones.
func (e *Effects) readUntold(ctx context.Context, known *untold, id perdure.SessionID) error {
	var tasks []perdure.Task
	err := e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
		tasks, err = r.Tasks(store.TaskFilter{Session: id})
		return err
	})
	if err != nil {
		return err
	}
	for _, t := range tasks {
		if t.Taken() && t.ToldAt.IsZero() {
			known.calls[t.ArgsHash] = t.Call
		}
	}
	known.read = true
	return nil
}

// makeHostCall checks a call as any other, and commits its task with its claim.
func (e *Effects) makeHostCall(ctx context.Context, o HostOrder, by hostCaller) (HostCall, error) {
	spec := by.target.Spec()
	key := perdure.CallKey{Session: o.Session, Call: hostCallID(by.row.Secret, o.Key)}
	if o.Key != "" {
		if known, err := e.madeBefore(ctx, key, o, by); known.ID != "" || err != nil {
			return known, err
		}
	}
	args, _ := e.taken(key, by.target, o.Args)
	made := HostCall{}
	defer func() {
		if made.Task.ID == "" { // nobody ends it
			e.vault.Drop(key)
		}
	}()
	call := tool.Call{Session: o.Session, ID: key.Call, Tool: o.Tool, Args: args, Class: spec.Class}
	if fault := e.fault(by.target, call); fault != nil {
		fault.ErrorAs, fault.Refused = perdure.ErrorRejected, true
		return refusedHost(key.Call, *fault)
	}
	j := e.judge(ctx, by.owner.agent, by.target, call, true) // nobody here knows what its caller read (S3)
	if j.refusal != nil {
		return refusedHost(key.Call, *j.refusal)
	}
	if !bytes.Equal(j.args, args) {
		j.args, _ = e.taken(key, by.target, j.args)
	}
	e.vault.Stay(key)
	print, err := perdure.Fingerprint(o.Tool, j.args)
	if err != nil {
		return HostCall{}, err
	}
	task := e.taskOfCall(callTask{
		owner: by.owner, at: by.owner.created, secret: by.row.Secret, name: orElse(veil.Without(e.known(o.Session), o.Title), orElse(spec.DisplayName, spec.Name)), origin: perdure.OriginHost,
		row: perdure.Call{Key: key, Tool: o.Tool, Args: j.args, Fingerprint: print, Class: spec.Class},
	})
	task.Delivery, task.Wake, task.Spec.SignalOnCompletion = perdure.Manual, perdure.WakeNone, false
	if task.ArgsHash, err = perdure.Fingerprint(o.Tool, args); err != nil { // as it was asked for, whatever hooks made of it
		return HostCall{}, err
	}
	started, err := e.startHost(ctx, task, hostStarter{owner: by.owner, permissions: j.permissions, withhold: o.Key == "" || o.Unnamed})
	var same *withheld
	if errors.As(err, &same) {
		found, err := e.FindHostCall(ctx, same.by.Key)
		found.Joined = true
		return found, err
	}
	var full *perdure.NoSlot
	if errors.As(err, &full) { // a budget says no
		refused := tool.Error(full.Text)
		refused.ErrorAs, refused.Refused = perdure.ErrorRejected, true
		return refusedHost(key.Call, refused)
	}
	made = HostCall{ID: key.Call, Task: started}
	return made, err
}

func refusedHost(id perdure.CallID, r tool.Result) (HostCall, error) {
	record, _ := r.Record(id) // a refusal's text is a tool error's
	record.NeverStarted = true
	return HostCall{ID: id, Result: &record}, nil
}

// madeBefore finds the call of a key. Conflict: it is another one.
func (e *Effects) madeBefore(ctx context.Context, key perdure.CallKey, o HostOrder, by hostCaller) (HostCall, error) {
	found, err := e.FindHostCall(ctx, key)
	if errors.Is(err, perdure.NotFound) {
		return HostCall{}, nil
	}
	if err != nil || found.Task.ID == "" {
		return found, err
	}
	if print, err := perdure.Fingerprint(o.Tool, e.recorded(o.Session, by.target, o.Args)); err != nil || print != found.Task.ArgsHash {
		return HostCall{}, fmt.Errorf("%w: the key stands for a call with another tool or other arguments", perdure.Conflict)
	}
	found.Joined = true
	return found, nil
}

// startHost commits a host's call: it runs from then on, or waits in the queue of the process, or for a person.
func (e *Effects) startHost(ctx context.Context, task perdure.Task, starter hostStarter) (perdure.Task, error) {
	if err := e.prepareTask(ctx, task, 1); err != nil {
		return task, err
	}
	var claimed perdure.Call
	stored := task
	starter.works = e.cfg.Works()
	e.starting.add(task.ID)
	err := e.work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) (err error) {
		stored, claimed, err = e.hostIn(tx, task, starter)
		return err
	})
	if claimed.Token != "" && (err == nil || e.owns(ctx, claimed)) {
		e.runTask(claimedTask{task: stored, row: claimed, owner: starter.owner}, freshTask)
		return stored, nil
	}
	e.starting.drop(task.ID)
	e.cfg.Freed() // a place may have become free before the call stood in the queue
	return stored, err
}

// hostStarter is what the commit of a host's call needs besides its task.
type hostStarter struct {
	owner       *owner
	permissions []perdure.Permission // to ask a person for first
	withhold    bool                 // while the outcome of the same call before is unknown, this one is not made
	works       bool                 // the engine runs. Before that its worker is not registered: to others, what it claimed would be a dead one's (LG19)
}

// hostIn is the commit of startHost. A call that cannot begin now is queued.
func (e *Effects) hostIn(tx store.Tx, task perdure.Task, by hostStarter) (perdure.Task, perdure.Call, error) {
	if stored, err := tx.Task(task.Session, task.ID); err == nil {
		return stored, perdure.Call{}, nil // made before
	}
	if by.withhold {
		if err := e.withholdTask(tx, task, repeat{asked: task.ArgsHash, resolved: true}); err != nil {
			return task, perdure.Call{}, err
		}
	}
	if err := e.reserveTask(tx, by.owner, task); err != nil {
		return task, perdure.Call{}, err
	}
	if len(by.permissions) > 0 {
		asked, err := e.askFirst(tx, task, by.permissions)
		return asked.Task, perdure.Call{}, err
	}
	now := tx.Now()
	task.State, task.CreatedAt, task.UpdatedAt, task.DetachedAt = perdure.TaskQueued, now, now, now
	_, ofProcess := e.cfg.Runner.Places(task.Session)
	free := by.works && (e.cfg.PerProcess == 0 || ofProcess < e.cfg.PerProcess)
	if free {
		task.State, task.StateDetail, task.Worker, task.Executions = perdure.TaskRunning, "Starting", e.cfg.Worker, 1
		task.StartedAt, task.HeartbeatAt, task.DeadlineAt = now, now, now.Add(e.deadlineOf(task))
	}
	events := []perdure.Event{taskEvent(task, perdure.TaskCreated{Task: task})}
	stamp(events, now)
	if err := tx.Append(task.Session, events); err != nil {
		return task, perdure.Call{}, err
	}
	if _, _, err := tx.CreateTask(task); err != nil || !free {
		return task, perdure.Call{}, err
	}
	claimed, err := e.claimTask(tx, task)
	return task, claimed, err
}

// FindHostCall returns a host's call as it stands. NotFound: there is none under this handle in this session.
func (e *Effects) FindHostCall(ctx context.Context, key perdure.CallKey) (found HostCall, err error) {
	err = e.cfg.Store.View(ctx, func(r store.Reader) (err error) {
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
	call, missing := r.Call(key)
	if missing != nil && !errors.Is(missing, perdure.NotFound) {
		return found, missing
	}
	id := call.Task // a call that was claimed names it
	if id == "" {
		var err error
		if id, err = hostTask(r, key); err != nil {
			return found, err
		}
	}
	task, err := r.Task(key.Session, id)
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

// hostTask is the id of the task of a host's call, which is derived from the call's.
func hostTask(r store.Reader, key perdure.CallKey) (perdure.TaskID, error) {
	row, err := r.Session(key.Session)
	if err != nil {
		return "", err
	}
	by, err := readOwner(r, key.Session)
	if err != nil {
		return "", err
	}
	order := spawnOrder{at: by.created, task: perdure.Task{Session: key.Session, Call: key.Call}}
	return order.named(row.Secret).ID, nil
}

// neverRan is the result of a call that ended before it was claimed: it was denied, or canceled while it waited.
func neverRan(t perdure.Task) perdure.ToolResult {
	if t.State == perdure.TaskCanceled || t.Error == nil {
		return perdure.Refused(t.Call, perdure.ErrorCanceled, orElse(t.Summary, "Canceled by request."))
	}
	return perdure.Refused(t.Call, t.Error.Kind, t.Error.Message)
}

// ToldHostCall notes that the reply to a call was written whole: nobody joins it any more (M4). Told again does nothing.
func (e *Effects) ToldHostCall(ctx context.Context, key perdure.CallKey) error {
	var found HostCall
	err := e.cfg.Store.View(ctx, func(r store.Reader) error {
		call, err := r.Call(key)
		if err == nil && call.Class == perdure.Pure { // which is never joined
			return nil
		}
		found, err = findHostCall(r, key)
		return err
	})
	if err != nil {
		return fmt.Errorf("call %s: %w", key, err)
	}
	told := !found.Task.ToldAt.IsZero() && !found.Task.ToldAt.Before(found.Task.ResolvedAt)
	if found.Task.ID == "" || told || found.Task.Class == perdure.Pure {
		return nil
	}
	err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
		now, err := tx.Task(key.Session, found.Task.ID)
		if err != nil {
			return err
		}
		_, err = tx.UpdateTask(key.Session, now.ID, perdure.TaskUpdate{Attempt: now.Attempt, Told: true})
		return err
	})
	if err != nil {
		return fmt.Errorf("call %s was told: %w", key, err)
	}
	e.hosts.of(key.Session).forget(found.Task.ArgsHash, key.Call)
	return nil
}

// hostCallID is the handle of a call: of the caller's key, or random. In either case nobody guesses it: the key of the one
// is the session's secret (M5).
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
