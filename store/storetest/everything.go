package storetest

import (
	"errors"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/webhook"
)

// everything is all that a store knows about the things that touch writes.
type everything struct {
	Sessions   []store.Session
	Snapshots  []store.Snapshot
	Events     []perdure.Event
	Calls      []perdure.Call
	Tasks      []perdure.Task
	Messages   []perdure.TaskMessage
	Log        []store.LogChunk
	Deliveries []store.Delivery
	Files      []store.File
	Workers    []store.Worker
	Requests   []store.Request
	Bulks      []store.Bulk
	Approvals  []perdure.Approval
	Spawns     []store.Spawn
	Partials   []store.Partial
	Directory  []shelf
	Default    store.Model
	ModelName  string
	Values     []store.Value
	Images     []store.Image
	Blob       bool
	Secrets    []store.Secret
	NextSecret int64
	Resources  []store.Resource
	Leases     []perdure.Lease
	Payments   []store.Payment
	Payment    store.Payment
	Spent      int64
	Outbound   int
	Webhooks   []store.Webhook
	Hooked     []webhook.Delivery
	Unhooked   []store.HookSpan
	Tokens     []store.AccessToken
	Audit      []store.AuditLink
	Audited    []store.AuditHead
	Schedules  []perdure.Schedule
	Due        []perdure.Schedule
	Fires      []perdure.Fire
}

// things are the rows that touch writes, of each noun: existing ones, which it changes, and new
// ones.
type things struct {
	session, fresh        perdure.SessionID
	worker, freshWorker   perdure.WorkerID
	claimed, unknown      perdure.Call
	bound                 perdure.Call // claimed, to be bound to task
	open, freshQuestion   perdure.Approval
	call                  perdure.Call
	task, freshTask       perdure.Task
	old                   perdure.Task // to be pruned
	pending, freshSpawn   store.Spawn
	running               store.Spawn
	message               perdure.TaskMessage
	jotted, fresher       perdure.MessageID // checkpoints: one to be dropped, and a new one
	entry, freshEntry     store.Resource
	gone                  store.Resource // entry to be removed
	leased, freshLease    perdure.Lease
	dropped, pruned       perdure.Lease // to be released; released and to be pruned
	dirty                 perdure.Lease // in cleanup
	due                   string        // provider of a due lease
	planned, unplanned    perdure.Schedule
	freshPlan             perdure.Schedule
	events, moreOfTheOld  []perdure.Event
	kept, freshKept       shelf // of the directory
	paying, freshPayment  store.Payment
	hooked, freshHook     store.Webhook
	told, freshTold       webhook.Delivery
	picture, freshPicture store.Image
	token, freshToken     store.AccessToken
	request, freshRequest store.Request
	bulk, freshBulk       store.Bulk
	requests              []store.Request // existing ones, one to be pruned, and one with an answer
}

// prepare fills a store with something of each noun.
func (s *subject) prepare() things {
	s.Helper()
	w := things{session: s.session(), fresh: mint[perdure.SessionID](s), worker: s.newStoredWorker().ID,
		freshWorker: mint[perdure.WorkerID](s)}
	s.append(w.session, 3)
	s.take(w.session, w.worker)
	s.write(func(tx store.Tx) error {
		return tx.Sessions().PutSnapshot(w.session, store.Snapshot{Seq: 1, Version: 1, Body: []byte("old")})
	})
	w.claimed, w.call = s.claimed(w.session), s.newCall(w.session)
	w.unknown, w.bound = s.claimed(w.session), s.claimed(w.session)
	s.settle(w.unknown, perdure.CallUnknown, text("nobody knows"))
	w.task = s.newTask(w.session)
	w.task.Worker = w.worker
	s.create(w.task)
	w.freshTask = s.newTask(w.session)
	s.say(w.task.ID, 1)
	w.old = s.endedTask(w.session, 5)
	w.pending, w.running, w.freshSpawn = s.spawned(w.session), s.runningSpawn(w.session), s.newSpawn(w.session)
	w.message = perdure.TaskMessage{ID: mint[perdure.TaskMessageID](s), Task: w.task.ID, Direction: perdure.Outbound,
		Text: "new"}
	s.output(w.task.ID, "stdout", "old output\n")
	s.deliver(ended(w.session, "task_old", 1, perdure.TaskFailed),
		ended(w.session, "task_other", 1, perdure.TaskFailed))
	s.put(w.session, "/old/file", "old")
	s.put(w.session, "/old/gone", "old")
	w.picture, w.freshPicture = s.putImage(s.newImage(w.session, "old")), s.blobOf(w.session, "new")
	s.keep(w.session, "old key", "old")
	s.keep(w.session, "old gone", "old")
	s.putSecret(w.session, "old name", 1, "k1")
	s.putSecret(w.session, "old gone", 1, "k1")
	w.events, w.moreOfTheOld = s.events(2), s.events(2)
	w.entry, w.freshEntry, w.gone = s.register(s.newResource(w.session)), s.newResource(w.session),
		s.register(s.newResource(w.session))
	s.prepareLeases(&w)
	s.prepareSchedules(&w)
	w.open, w.freshQuestion = s.ask(s.newApproval(w.session)), s.newApproval(w.session)
	pruned := s.begun()
	s.later(pruned.At)
	w.request, w.freshRequest = s.begun(), s.newRequest()
	w.jotted, w.fresher = s.putPartial(w.session, mint[perdure.MessageID](s), "old").Message, mint[perdure.MessageID](s)
	w.requests = []store.Request{pruned, s.end(s.begun(), answer("old")), w.request, w.freshRequest}
	w.bulk, w.freshBulk = s.createBulk(s.newBulk(), false), s.newBulk()
	w.kept, w.freshKept = s.shelve(s.newShelf()), s.newShelf()
	w.token, w.freshToken = s.admit(s.newToken("org")), s.newToken("org")
	w.paying, w.freshPayment = s.pay(s.newPayment(w.session), hour), s.newPayment(w.session)
	w.hooked, w.freshHook = s.hook(s.newWebhook()), s.newWebhook()
	w.told, w.freshTold = s.newHookDelivery(w.hooked.ID, w.session, moment(1)),
		s.newHookDelivery(w.hooked.ID, w.session, moment(2))
	s.queue(w.told)
	return w
}

// lookAtBulks reads the bulks.
func (w things) lookAtBulks(r store.Reader, found *everything) error {
	for _, known := range []store.Bulk{w.bulk, w.freshBulk} {
		bulks, err := r.Bulks().List(known.ID)
		if err != nil {
			return err
		}
		found.Bulks = append(found.Bulks, bulks...)
	}
	return nil
}

// touchBulks calls every writing method of bulks.
func (w things) touchBulks(tx store.Tx) error {
	taken := w.bulk
	taken.Worker = w.freshWorker
	return errors.Join(tx.Bulks().Create(w.freshBulk, true), tx.Bulks().Take(w.bulk, taken.Worker), tx.Bulks().Save(taken, true),
		func() error { _, err := tx.Bulks().Prune(moment(1), 9); return err }())
}

// touchResources calls every writing method of the resource registry and of leases.
func (w things) touchResources(tx store.Tx) error {
	_, fresh := tx.Resources().Put(w.freshEntry)
	_, again := tx.Resources().Put(w.entry)
	_, gone := tx.Resources().Remove(w.session, w.gone.ID)
	_, leased := tx.Resources().PutLease(w.freshLease, time.Hour)
	_, refreshed := tx.Resources().PutLease(w.leased, time.Minute)
	_, released := tx.Resources().ReleaseLease(w.session, store.KeyOf(w.dropped))
	_, ended := tx.Resources().EndCleanup(store.LeaseEnd{ID: w.dirty.ID, Claim: w.dirty.CleanupAt})
	_, claimed := tx.Resources().ClaimLeases(store.LeaseDue{Provider: w.due})
	_, pruned := tx.Resources().PruneLeases(w.pruned.UpdatedAt.Add(time.Microsecond), 1)
	return errors.Join(fresh, again, gone, leased, refreshed, released, ended, claimed, pruned)
}

// prepareLeases adds a lease in each state.
func (s *subject) prepareLeases(w *things) {
	s.Helper()
	w.pruned = s.lease(s.newLease(w.session), time.Hour)
	s.write(releaseOf(w.pruned))
	w.pruned = s.storedLease(w.pruned)
	s.later(w.pruned.UpdatedAt)
	s.lease(s.newLease(w.session), 0)
	w.dirty = s.claimLeases(everyClaim)[0]
	w.leased, w.dropped = s.lease(s.newLease(w.session), time.Hour), s.lease(s.newLease(w.session), time.Hour)
	due := s.newLease(w.session)
	due.Provider = "elsewhere"
	w.due, w.freshLease = s.lease(due, 0).Provider, s.newLease(w.session)
}

// touchSessions returns the calls that change sessions and their journals.
func (w things) touchSessions(tx store.Tx) []func() error {
	return []func() error{
		func() error { _, err := tx.Sessions().Lock(w.session, 1); return err },
		func() error { return tx.Journal().Append(w.session, w.moreOfTheOld) },
		func() error { return tx.Sessions().Update(w.session, "new title", perdure.SessionActive) },
		func() error { return tx.Sessions().SetHome(w.session, "home_1") },
		func() error { return tx.Sessions().AwaitHome(w.session) },
		func() error {
			return tx.Sessions().PutSnapshot(w.session, store.Snapshot{Seq: 5, Version: 1, Body: []byte("new")})
		},
		func() error {
			return tx.Sessions().Create(store.Session{ID: w.fresh, Title: "fresh", Status: perdure.SessionStarted,
				CreatedAt: moment(9)})
		},
		func() error { _, err := tx.Sessions().Acquire(w.fresh, w.freshWorker); return err },
		func() error { return tx.Sessions().Release(w.fresh, 1) },
		func() error { return tx.Journal().Append(w.fresh, w.events) },
	}
}

// touch calls every method of Tx.
func (w things) touch(tx store.Tx) error {
	next := w.unknown
	next.State, next.Token = perdure.CallRunning, "rerun"
	taken := w.claimed
	taken.Token, taken.Executions = "taken", 2
	answered := w.open
	answered.State, answered.DecidedBy = perdure.ApprovalApproved, "user"
	steps := append(w.touchSessions(tx), []func() error{
		func() error { _, _, err := tx.Tasks().Create(w.freshTask); return err },
		func() error {
			_, err := tx.Tasks().Update(w.session, w.task.ID,
				perdure.TaskUpdate{Attempt: 1, Summary: "new", StartsExecution: true})
			return err
		},
		func() error { _, _, err := tx.Calls().Claim(w.call, alive); return err },
		func() error { return tx.Calls().TakeOver(w.claimed, taken) },
		func() error { return tx.Calls().Settle(taken.Key, taken.Token, perdure.CallSettled, text("done")) },
		func() error { return tx.Calls().Resolve(next, "operator") },
		func() error { return tx.Calls().Bind(w.bound.Key, w.bound.Token, w.task.ID, 1) },
		func() error { return tx.Approvals().Put(answered) },
		func() error { return tx.Approvals().Put(w.freshQuestion) },
		func() error { _, err := tx.Tasks().Prune(moment(9), 1); return err },
		func() error { _, _, err := tx.Spawns().Claim(w.freshSpawn); return err },
		func() error { return tx.Spawns().RegisterChild(w.pending.Key, w.pending.Token, w.fresh) },
		func() error { _, err := tx.Spawns().Repair(w.running.Key, w.running.Token); return err },
		func() error { return tx.Spawns().Settle(w.running.Key, w.running.Token, perdure.TaskFailed, nil) },
		func() error { return tx.Tasks().AddMessage(w.message) },
		func() error {
			_, err := tx.Tasks().AppendLog(w.task.ID, 1, "stderr", []byte("new output\n"))
			return err
		},
		func() error { return tx.Tasks().AddDelivery(ended(w.session, w.task.ID, 1, perdure.TaskSucceeded)) },
		func() error {
			_, err := tx.Tasks().ClaimDeliveries(w.session, []perdure.TaskID{"task_old"})
			return err
		},
		func() error {
			_, err := tx.Files().Put(w.session, store.File{Path: "/new/file", Content: []byte("new")})
			return err
		},
		func() error {
			_, err := tx.Files().Put(w.session, store.File{Path: "/old/file", Content: []byte("new")})
			return err
		},
		func() error { _, err := tx.Files().Remove(w.session, "/old/gone"); return err },
		func() error { return tx.Workers().Put(store.Worker{ID: w.freshWorker, Host: "fresh"}) },
		func() error { _, err := tx.Workers().Renew(w.worker, time.Minute); return err },
		func() error { return tx.Workers().Retire(w.freshWorker) },
		func() error { return tx.Workers().Remove(w.freshWorker) },
		func() error { return tx.Workers().MarkDead(w.freshWorker) },
		func() error { _, err := tx.Workers().Elect("role"); return err },
		func() error { return tx.Requests().Begin(w.freshRequest) },
		func() error { return tx.Requests().End(w.request.Scope, w.request.Key, answer("new")) },
		func() error { _, err := tx.Requests().Prune(w.request.At, 9); return err },
		func() error { return w.touchBulks(tx) },
		func() error { return w.touchDirectory(tx) },
		func() error { return w.touchMoney(tx) },
		func() error { return w.touchWebhooks(tx) },
		func() error { return tx.Journal().DropPartial(w.session, w.jotted) },
		func() error { return w.touchValues(tx) },
		func() error { return w.touchResources(tx) },
		func() error { return w.touchSchedules(tx) },
		func() error {
			return tx.Journal().PutPartial(store.Partial{Session: w.session, Message: w.fresher, Text: "new"})
		},
	}...)
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// touchValues calls the writing methods of values, secrets and images.
func (w things) touchValues(tx store.Tx) error {
	_, put := tx.Values().Put(store.Value{Session: w.session, Key: "old key", Text: "new"})
	_, gone := tx.Values().Remove(w.session, "old gone")
	_, putImage := tx.Images().Put(w.freshPicture)
	_, again := tx.Secrets().Reseal(store.Secret{Session: w.session, Name: "old name", Version: 1, Sealed: []byte("again"),
		KeyID: "k2"}, "k1")
	sealed := tx.Secrets().Put(store.Secret{Session: w.session, Name: "new name", Version: 1, Sealed: []byte("new"),
		KeyID: "k2"})
	_, removed := tx.Secrets().Remove(w.session, "old gone")
	return errors.Join(put, gone, putImage, again, sealed, removed)
}

// touchMoney calls the writing methods of payments, of the rate limit and of tokens.
func (w things) touchMoney(tx store.Tx) error {
	_, added := tx.Payments().Add(w.freshPayment, hour)
	_, settled := tx.Payments().Settle(endOf(w.paying, store.PaymentPaid))
	_, counted := tx.Rates().CountOutbound(w.paying.Org, 1000)
	revoked := w.token
	revoked.RevokedAt = moment(9)
	return errors.Join(added, settled, counted, tx.Tokens().Put(revoked), tx.Tokens().Put(w.freshToken),
		tx.Audit().Add(store.AuditEntry{Org: "org", Action: "token.revoked", Subject: string(revoked.ID)}))
}

// touchWebhooks calls the writing methods of webhooks.
func (w things) touchWebhooks(tx store.Tx) error {
	changed, told := w.hooked, w.told
	changed.Failures, told.Attempts, told.EndedAt = 99, 99, moment(1)
	_, put := tx.Webhooks().Put(changed)
	_, fresh := tx.Webhooks().Put(w.freshHook)
	_, gone := tx.Webhooks().Remove(w.freshHook.ID)
	_, added := tx.Webhooks().AddDelivery(w.freshTold)
	again := tx.Webhooks().UpdateDelivery(told)
	moved := tx.Webhooks().Move(store.HookSpan{})
	_, pruned := tx.Webhooks().PruneDeliveries(moment(9), 1)
	return errors.Join(put, fresh, gone, added, again, moved, pruned)
}

// touchDirectory calls the writing methods of the directory.
func (w things) touchDirectory(tx store.Tx) error {
	next := w.kept
	next.Agent.Name, next.Harness.Name, next.Provider.Name, next.Model.Title, next.Connection.Owner = "new", "new",
		"new", "new", "new"
	if _, err := next.putIn(tx); err != nil {
		return err
	}
	if _, err := w.freshKept.putIn(tx); err != nil {
		return err
	}
	_, removed := tx.Directory().Connections().Remove(w.kept.Connection.Key())
	_, gone := tx.Directory().Models().Remove(w.kept.Model.ID)
	_, left := tx.Directory().Providers().Remove(w.kept.Provider.ID)
	return errors.Join(removed, gone, left, tx.Directory().Models().SetDefault(w.freshKept.Model.ID),
		tx.Directory().Models().SetDefaultName("org", "ollama/new"),
		tx.Directory().Providers().SetDefault(w.freshKept.Provider.ID))
}

// look calls every method of Reader.
func (w things) look(r store.Reader) (found everything, err error) {
	sessions := []perdure.SessionID{w.session, w.fresh}
	steps := []func() error{
		func() error { found.Sessions, err = r.Sessions().List(store.SessionFilter{}); return err },
		func() error { found.Calls, err = r.Calls().List(store.CallFilter{}); return err },
		func() error { found.Tasks, err = r.Tasks().List(store.TaskFilter{}); return err },
		func() error { found.Messages, err = r.Tasks().Messages(w.task.ID, "", 0); return err },
		func() error { found.Log, _, err = r.Tasks().ReadLog(w.task.ID, 0, 1000); return err },
		func() error { found.Deliveries, err = r.Tasks().Deliveries(""); return err },
		func() error { found.Workers, err = r.Workers().List(); return err },
		func() error { found.Approvals, err = r.Approvals().List(store.ApprovalFilter{}); return err },
		func() error { found.Spawns, err = r.Spawns().List(""); return err },
		func() error {
			kept, _, failed := w.kept.lookIn(r)
			fresh, _, err := w.freshKept.lookIn(r)
			found.Directory = []shelf{kept, fresh}
			return errors.Join(failed, err)
		},
		func() error { found.Default, _, err = r.Directory().Models().Default(); return err },
		func() error { found.ModelName, _, err = r.Directory().Models().DefaultName("org"); return err },
		func() error { found.Values, err = r.Values().List(w.session); return err },
		func() error { found.Images, found.Blob, err = w.lookAtImages(r); return err },
		func() error { found.Secrets, err = r.Secrets().List(store.SecretFilter{}); return err },
		func() error { found.NextSecret, err = r.Secrets().NextVersion(w.session, "old gone"); return err },
		func() error { return w.lookBeside(r, &found) },
		func() error { return w.lookAtSchedules(r, &found) },
		func() error { return w.lookAtBulks(r, &found) },
		func() error {
			snapshot, err := r.Sessions().Snapshot(w.session)
			found.Snapshots = append(found.Snapshots, snapshot)
			return err
		},
	}
	for _, known := range w.requests {
		steps = append(steps, func() error {
			request, err := r.Requests().Get(known.Scope, known.Key)
			if errors.Is(err, perdure.NotFound) {
				return nil // not begun yet, or pruned
			}
			found.Requests = append(found.Requests, request)
			return err
		})
	}
	for _, id := range []perdure.MessageID{w.jotted, w.fresher} {
		steps = append(steps, func() error {
			partial, err := r.Journal().Partial(w.session, id)
			if errors.Is(err, perdure.NotFound) {
				return nil // dropped, or not put yet
			}
			found.Partials = append(found.Partials, partial)
			return err
		})
	}
	for _, id := range sessions {
		steps = append(steps,
			func() error {
				events, err := r.Journal().Events(id, 0, 0)
				found.Events = append(found.Events, events...)
				return err
			},
			func() error {
				files, err := r.Files().List(id, "/", true)
				for i, f := range files {
					if files[i], err = r.Files().Get(id, f.Path); err != nil {
						return err
					}
				}
				found.Files = append(found.Files, files...)
				return err
			},
		)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return everything{}, err
		}
	}
	return found, nil
}

// lookBeside reads resources, leases, payments, tokens, rates and webhooks.
func (w things) lookBeside(r store.Reader, found *everything) (err error) {
	if found.Resources, err = r.Resources().List(store.ResourceFilter{}); err != nil {
		return err
	}
	if found.Leases, err = r.Resources().Leases(w.session); err != nil {
		return err
	}
	if found.Payments, err = r.Payments().List(store.PaymentFilter{}); err != nil {
		return err
	}
	if found.Payment, err = r.Payments().Get(w.paying.Hash); err != nil {
		return err
	}
	if found.Spent, err = r.Payments().Sum(store.PaymentScope{Org: w.paying.Org, Currency: w.paying.Currency}); err != nil {
		return err
	}
	if found.Tokens, err = r.Tokens().List("org"); err != nil {
		return err
	}
	if found.Audit, err = r.Audit().Links("org", 0, 0); err != nil {
		return err
	}
	if found.Audited, err = r.Audit().Heads(); err != nil {
		return err
	}
	if found.Outbound, err = r.Rates().Outbound(w.paying.Org); err != nil {
		return err
	}
	if found.Webhooks, err = r.Webhooks().List(); err != nil {
		return err
	}
	if found.Hooked, err = r.Webhooks().Deliveries(store.HookDeliveryFilter{Webhook: w.hooked.ID}); err != nil {
		return err
	}
	found.Unhooked, err = r.Webhooks().Spans(0)
	return err
}

// all returns the store's content about the things.
func (s *subject) all(w things) (found everything) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		found, err = w.look(r)
		return err
	})
	return found
}
