package postgres

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure"
)

// maxListens is the maximal number of sessions in one round trip of the listener.
const maxListens = 500

// subscriptions are the sessions to which this process listens: those that somebody in it watches,
// and those of which it publishes frames. It is safe for concurrent use.
type subscriptions struct {
	mu        sync.Mutex // guards the fields below, and each subscription
	sessions  map[perdure.SessionID]*subscription
	changed   map[perdure.SessionID]bool // since the listener last looked
	interrupt context.CancelFunc         // ends the listener's wait; nil: it does not wait
	locks     []int64                    // that the listener has to take
}

// subscription is the need of a process for the notifications of a session.
type subscription struct {
	watchers  int
	published bool
	listening bool      // LISTEN is in effect
	renewedAt time.Time // when this process last said that it watches
}

func newSubscriptions() *subscriptions {
	return &subscriptions{sessions: map[perdure.SessionID]*subscription{}, changed: map[perdure.SessionID]bool{}}
}

// change changes a subscription, and has the listener look at it.
func (s *subscriptions) change(id perdure.SessionID, change func(*subscription) (changed bool)) {
	if !isNotifiable(id) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.sessions[id]
	if sub == nil {
		sub = &subscription{}
		s.sessions[id] = sub
	}
	if !change(sub) {
		return
	}
	s.changed[id] = true
	s.interruptLocked()
}

// lock has the listener take a lock for as long as its connection lasts.
func (s *subscriptions) lock(number int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.locks = append(s.locks, number)
	s.interruptLocked()
}

// interruptLocked ends the listener's wait. The caller holds mu.
func (s *subscriptions) interruptLocked() {
	if s.interrupt != nil {
		s.interrupt()
	}
}

// watch adds a watcher of a session.
func (s *subscriptions) watch(id perdure.SessionID) {
	s.change(id, func(sub *subscription) bool { sub.watchers++; return sub.watchers == 1 })
}

// unwatch removes a watcher.
func (s *subscriptions) unwatch(id perdure.SessionID) {
	s.change(id, func(sub *subscription) bool { sub.watchers--; return sub.watchers == 0 })
}

// setPublished says whether this process publishes frames of a session.
func (s *subscriptions) setPublished(id perdure.SessionID, published bool) {
	s.change(id, func(sub *subscription) bool { sub.published = published; return true })
}

// reset marks all subscriptions as changed, for a new connection, which listens to nothing yet.
func (s *subscriptions) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, sub := range s.sessions {
		sub.listening = false
		s.changed[id] = true
	}
}

// takeChanges returns the sessions that changed, and which of them the connection must begin or
// cease to listen to.
func (s *subscriptions) takeChanges() (changed, begin, end []perdure.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.changed {
		sub := s.sessions[id]
		used := sub.watchers > 0 || sub.published
		switch {
		case used && !sub.listening:
			begin = append(begin, id)
		case !used && sub.listening:
			end = append(end, id)
		}
		if used {
			changed = append(changed, id)
		} else {
			delete(s.sessions, id)
		}
	}
	clear(s.changed)
	return changed, begin, end
}

// takeLocks returns the locks that the listener has to take.
func (s *subscriptions) takeLocks() (numbers []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	numbers, s.locks = s.locks, nil
	return numbers
}

// wait returns the context of a wait that ends when a subscription changes. The caller calls stop
// after the wait.
func (s *subscriptions) wait(ctx context.Context) (waiting context.Context, stop func()) {
	waiting, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.interrupt = cancel
	if len(s.changed) > 0 || len(s.locks) > 0 {
		cancel()
	}
	return waiting, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.interrupt = nil
		cancel()
	}
}

// setListening notes that LISTEN is in effect for sessions.
func (s *subscriptions) setListening(ids []perdure.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		if sub := s.sessions[id]; sub != nil {
			sub.listening = true
		}
	}
}

// renew reports whether this process must say now that it watches a session: it watches, and has
// not said so for a time.
func (s *subscriptions) renew(id perdure.SessionID, after time.Duration, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.sessions[id]
	if sub == nil || sub.watchers == 0 || now.Sub(sub.renewedAt) < after {
		return false
	}
	sub.renewedAt = now
	return true
}

// isPublished reports whether this process publishes frames of a session.
func (s *subscriptions) isPublished(id perdure.SessionID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.sessions[id]
	return sub != nil && sub.published
}

// listenLoop listens until ctx ends. When its connection breaks it opens another one, and wakes all
// watchers, since notifications may have been missed.
func (s *Store) listenLoop(ctx context.Context) {
	for pause := firstPause; ; pause = min(2*pause, 10*lastPause) {
		if s.listenOnce(ctx) {
			pause = firstPause
		}
		if !s.pause(ctx, jittered(pause)) {
			return
		}
	}
}

// listenOnce listens on one connection until it breaks, and reports whether it started to listen.
func (s *Store) listenOnce(ctx context.Context) (listened bool) {
	conn, err := s.openListener(ctx)
	if err != nil {
		return false
	}
	defer func() {
		leaving, stop := context.WithTimeout(context.Background(), closeLimit)
		defer stop()
		_ = conn.Close(leaving) // the connection ends in any case
	}()
	s.workers.setListening(true)
	defer s.workers.setListening(false)
	s.subscriptions.reset()
	for reader := new(frameReader); ; {
		if err := s.subscribe(ctx, conn, reader); err != nil {
			return listened
		}
		listened = true
		waiting, stop := s.subscriptions.wait(ctx)
		n, err := conn.WaitForNotification(waiting)
		stop()
		switch {
		case err == nil:
			s.receive(n.Payload, reader)
		case ctx.Err() != nil || conn.IsClosed() || waiting.Err() == nil:
			return listened
		}
	}
}

func (s *Store) openListener(ctx context.Context) (*pgx.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, s.cfg.attempt())
	defer stop()
	conn, err := pgx.ConnectConfig(ctx, s.listenConfig.Copy())
	if err != nil {
		return nil, err
	}
	if err := s.lockWorkers(ctx, conn.PgConn()); err != nil {
		_ = conn.Close(ctx) // the connection ends in any case
		return nil, err
	}
	return conn, nil
}

// subscribe carries out changed subscriptions on the connection. Watchers of a session to which it
// begins to listen read again, since events may have been added after they read and before LISTEN
// was in effect.
func (s *Store) subscribe(ctx context.Context, conn *pgx.Conn, reader *frameReader) error {
	changed, begin, end := s.subscriptions.takeChanges()
	var statements []string
	for _, number := range s.subscriptions.takeLocks() {
		statements = append(statements, lockStatement(number))
	}
	for _, id := range begin {
		statements = append(statements, "LISTEN "+channel(id))
	}
	for _, id := range end {
		reader.forget(id)
		statements = append(statements, "UNLISTEN "+channel(id))
	}
	for some := range slices.Chunk(statements, maxListens) {
		if err := s.execListener(ctx, conn, strings.Join(some, ";")); err != nil {
			return err
		}
	}
	s.subscriptions.setListening(begin)
	for _, id := range begin {
		s.hub.Notify(id)
	}
	for _, id := range changed {
		if s.subscriptions.renew(id, 0, time.Now()) {
			s.outbox.add(senderWatches, id)
		}
		if s.subscriptions.isPublished(id) {
			s.outbox.add(whoWatches, id)
		}
	}
	return nil
}

// execListener runs statements on the listening connection.
func (s *Store) execListener(ctx context.Context, conn *pgx.Conn, statements string) error {
	ctx, stop := context.WithTimeout(ctx, s.cfg.attempt())
	defer stop()
	_, err := conn.PgConn().Exec(ctx, statements).ReadAll()
	return err
}

// receive handles a notification. A store ignores its own, since it woke its watchers before it
// sent them.
func (s *Store) receive(payload string, reader *frameReader) {
	s.received.Add(1)
	n, origin, ok := parseNotification(payload)
	if !ok || origin == s.origin {
		return
	}
	switch n.kind {
	case journalGrew:
		s.hub.Notify(n.session)
	case whoWatches:
		if s.subscriptions.renew(n.session, 0, time.Now()) {
			s.outbox.add(senderWatches, n.session)
		}
	case senderWatches:
		s.outbox.heard(n.session, time.Now())
	case firstFrames, continueFrames:
		for _, frame := range reader.read(n, origin) {
			s.hub.Relay(frame)
		}
		if s.subscriptions.renew(n.session, watchRenewal, time.Now()) {
			s.outbox.add(senderWatches, n.session)
		}
	}
}

// listenerConfig returns the configuration of the listening connection. Only ctx limits its
// waiting. If its packets are lost without an error, pollLoop still finds new events.
func listenerConfig(parsed *pgx.ConnConfig) *pgx.ConnConfig {
	c := parsed.Copy()
	c.RuntimeParams["application_name"] = applicationName + " listener"
	return c
}
