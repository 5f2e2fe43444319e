package postgres

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/perdure/perdure"
)

// channel is the channel on which processes notify each other of journals that grew.
const channel = "perdure_journal"

// The statements of watching. A message is sent outside of the transactions: transactions with a
// NOTIFY would commit one after another.
const (
	sendNotification = `SELECT pg_notify('` + channel + `', $1)`
	listen           = `LISTEN ` + channel
	selectGrowth     = `SELECT id, last_seq FROM session WHERE id = ANY($1)`
)

// maxPayloadSessions is the maximal number of sessions in one message. The server accepts less than
// 8,000 bytes.
const maxPayloadSessions = 100

// outbox holds the sessions of which other processes are to be notified. It is safe for concurrent
// use.
type outbox struct {
	mu      sync.Mutex
	pending []perdure.SessionID // guarded by mu; without duplicates
	wake    chan struct{}       // capacity 1: one signal may cover many sessions
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// add adds a session. It never blocks.
func (o *outbox) add(id perdure.SessionID) {
	o.mu.Lock()
	if !slices.Contains(o.pending, id) {
		o.pending = append(o.pending, id)
	}
	o.mu.Unlock()
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take returns the pending sessions and empties the outbox.
func (o *outbox) take() []perdure.SessionID {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.pending
	o.pending = nil
	return taken
}

// startBackground starts the goroutines that run until Close: one sends notifications, one listens
// for those of other processes, and one polls in case a notification was lost.
func (s *Store) startBackground() {
	ctx, stop := context.WithCancel(context.Background())
	s.stopBackground = stop
	s.background.Go(func() { s.notifyLoop(ctx) })
	s.background.Go(func() { s.listenLoop(ctx) })
	s.background.Go(func() { s.pollLoop(ctx) })
}

// notifyLoop sends the content of the outbox until ctx ends. While one message is being sent, the
// next one accumulates. A message that cannot be sent is lost: the other processes find the events
// when they poll.
func (s *Store) notifyLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.outbox.wake:
		}
		for some := range slices.Chunk(s.outbox.take(), maxPayloadSessions) {
			sending, stop := context.WithTimeout(ctx, s.cfg.attempt())
			_, _ = s.readers.ExecContext(sending, sendNotification, payload(s.origin, some)) // see above
			stop()
		}
	}
}

// payload is the text of a message: the origin and the sessions that grew.
func payload(origin string, sessions []perdure.SessionID) string {
	var b strings.Builder
	b.WriteString(origin)
	for _, id := range sessions {
		b.WriteByte(' ')
		b.WriteString(string(id))
	}
	return b.String()
}

// notifyWatchers wakes the watchers of the sessions in a message. A store ignores its own messages,
// since it has woken its watchers before it sent them.
func (s *Store) notifyWatchers(text string) {
	origin, sessions, _ := strings.Cut(text, " ")
	if origin == s.origin {
		return
	}
	for id := range strings.FieldsSeq(sessions) {
		s.hub.Notify(perdure.SessionID(id))
	}
}

// listenLoop listens until ctx ends. When its connection breaks it opens another one, and wakes all
// watchers, since messages may have been missed.
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
func (s *Store) listenOnce(ctx context.Context) (heard bool) {
	opening, stop := context.WithTimeout(ctx, s.cfg.attempt())
	defer stop()
	conn, err := pgx.ConnectConfig(opening, s.listenConfig.Copy())
	if err != nil {
		return false
	}
	defer func() {
		leaving, stop := context.WithTimeout(context.Background(), closeLimit)
		defer stop()
		_ = conn.Close(leaving) // the connection ends in any case
	}()
	if _, err := conn.Exec(opening, listen); err != nil {
		return false
	}
	for _, id := range s.hub.Watched() {
		s.hub.Notify(id)
	}
	for {
		said, err := conn.WaitForNotification(ctx)
		if err != nil {
			return true
		}
		s.notifyWatchers(said.Payload)
	}
}

// listenerConfig returns the configuration of the listening connection. Only ctx limits its
// waiting. If its packets are lost without an error, pollLoop still finds new events.
func listenerConfig(parsed *pgx.ConnConfig) *pgx.ConnConfig {
	c := parsed.Copy()
	c.RuntimeParams["application_name"] = applicationName + " listener"
	return c
}

// pollLoop polls the watched sessions until ctx ends.
func (s *Store) pollLoop(ctx context.Context) {
	tick := time.NewTicker(s.cfg.Poll)
	defer tick.Stop()
	seen := map[perdure.SessionID]int64{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if watched := s.hub.Watched(); len(watched) > 0 {
			seen = s.pollSessions(ctx, watched, seen)
		}
	}
}

// pollSessions wakes the watchers of sessions that grew since seen, or were removed, and returns
// their current lengths. After a failed read the next poll compares with seen again.
func (s *Store) pollSessions(ctx context.Context, watched []perdure.SessionID,
	seen map[perdure.SessionID]int64) map[perdure.SessionID]int64 {
	ctx, stop := context.WithTimeout(ctx, s.cfg.attempt())
	defer stop()
	var ids []string
	for _, id := range watched {
		if utf8.ValidString(string(id)) && !strings.Contains(string(id), "\x00") {
			// no session has such an id, and it would make the query fail
			ids = append(ids, string(id))
		}
	}
	found, err := s.readers.QueryContext(ctx, selectGrowth, ids)
	if err != nil {
		return seen
	}
	defer found.Close()
	now := map[perdure.SessionID]int64{}
	for found.Next() {
		var id perdure.SessionID
		var last int64
		if found.Scan(&id, &last) != nil {
			return seen
		}
		now[id] = last
		if before, known := seen[id]; !known || before != last {
			s.hub.Notify(id)
		}
	}
	if found.Err() != nil {
		return seen
	}
	for id := range seen {
		if _, there := now[id]; !there {
			s.hub.Notify(id) // the session may have been removed
		}
	}
	return now
}
