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

// channel is where processes tell one another which journals grew.
const channel = "perdure_journal"

// The statements of watching. A word is sent beside the transactions, not in them: those with one would commit one after another.
const (
	sendWord  = `SELECT pg_notify('` + channel + `', $1)`
	listen    = `LISTEN ` + channel
	askGrowth = `SELECT id, last_seq FROM session WHERE id = ANY($1)`
)

// maxWord is how many sessions a word names. The server takes words of less than 8,000 bytes.
const maxWord = 100

// outbox holds the sessions of which others are to be told. It is safe for concurrent use.
type outbox struct {
	mu      sync.Mutex
	pending []perdure.SessionID // guarded by mu; each once
	wake    chan struct{}       // capacity 1: one signal stands for many sessions
}

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// add notes a session. It never blocks.
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

// take empties the outbox.
func (o *outbox) take() []perdure.SessionID {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := o.pending
	o.pending = nil
	return taken
}

// accompany starts what runs beside the store until Close: who tells others, who listens to them, and who looks where a word
// was lost.
func (s *Store) accompany() {
	ctx, stop := context.WithCancel(context.Background())
	s.stopBeside = stop
	s.beside.Go(func() { s.tellOthers(ctx) })
	s.beside.Go(func() { s.hearOthers(ctx) })
	s.beside.Go(func() { s.lookAround(ctx) })
}

// tellOthers sends what the outbox holds, until ctx ends. While one word is under way the next gathers. One that cannot be
// sent is lost: the others look for themselves before long.
func (s *Store) tellOthers(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.outbox.wake:
		}
		for some := range slices.Chunk(s.outbox.take(), maxWord) {
			sending, stop := context.WithTimeout(ctx, s.cfg.attempt())
			_, _ = s.readers.ExecContext(sending, sendWord, word(s.origin, some)) // see above
			stop()
		}
	}
}

// word is who speaks and the sessions that grew.
func word(origin string, sessions []perdure.SessionID) string {
	var b strings.Builder
	b.WriteString(origin)
	for _, id := range sessions {
		b.WriteByte(' ')
		b.WriteString(string(id))
	}
	return b.String()
}

// heard wakes the watchers that a word is for. Its own words a store has heard before it sent them.
func (s *Store) heard(text string) {
	origin, sessions, _ := strings.Cut(text, " ")
	if origin == s.origin {
		return
	}
	for id := range strings.FieldsSeq(sessions) {
		s.hub.Notify(perdure.SessionID(id))
	}
}

// hearOthers listens until ctx ends. A connection that breaks is made again, and what may have been missed is looked for.
func (s *Store) hearOthers(ctx context.Context) {
	for pause := firstPause; ; pause = min(2*pause, 10*lastPause) {
		if s.hear(ctx) {
			pause = firstPause
		}
		if !s.rest(ctx, jittered(pause)) {
			return
		}
	}
}

// hear listens on one connection until it breaks, and reports whether it came to listen.
func (s *Store) hear(ctx context.Context) (heard bool) {
	opening, stop := context.WithTimeout(ctx, s.cfg.attempt())
	defer stop()
	conn, err := pgx.ConnectConfig(opening, s.listens.Copy())
	if err != nil {
		return false
	}
	defer func() {
		leaving, stop := context.WithTimeout(context.Background(), closeLimit)
		defer stop()
		_ = conn.Close(leaving) // it goes in any case
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
		s.heard(said.Payload)
	}
}

// forListening is how the connection that listens speaks with the server. Nothing bounds its waiting but ctx: should it lead
// nowhere, lookAround stands in.
func forListening(parsed *pgx.ConnConfig) *pgx.ConnConfig {
	c := parsed.Copy()
	c.RuntimeParams["application_name"] = applicationName + " listener"
	return c
}

// lookAround looks at the sessions that somebody watches, until ctx ends.
func (s *Store) lookAround(ctx context.Context) {
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
			seen = s.lookAt(ctx, watched, seen)
		}
	}
}

// lookAt wakes the watchers of sessions that are longer than when they were seen, or gone, and returns how long they are. What cannot be read is looked at again.
func (s *Store) lookAt(ctx context.Context, watched []perdure.SessionID, seen map[perdure.SessionID]int64) map[perdure.SessionID]int64 {
	ctx, stop := context.WithTimeout(ctx, s.cfg.attempt())
	defer stop()
	var ids []string
	for _, id := range watched {
		if utf8.ValidString(string(id)) && !strings.Contains(string(id), "\x00") { // else it is nobody's, and would spoil the question
			ids = append(ids, string(id))
		}
	}
	found, err := s.readers.QueryContext(ctx, askGrowth, ids)
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
			s.hub.Notify(id) // it may have been removed
		}
	}
	return now
}
