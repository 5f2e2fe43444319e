//go:build soak

package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/internal/cli"
	"github.com/perdure/perdure/internal/crashfs"
	"github.com/perdure/perdure/internal/soak"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/sqlite"
)

// recording is what a server did to its files and sent to its clients, in two processes with a kill
// in between, and what a power cut can leave of it.
type recording struct {
	ops      []crashfs.Op
	promises []promise
	root     string            // of the paths in ops
	data     string            // the data directory, below root
	final    map[string]string // the text of each event at the end, by its id
}

// promise is an acknowledgement to a client, or an external effect, which must survive from then
// on.
type promise struct {
	op   int    // when, as an index of operations
	kind string // session, message, event, effect
	id   string // for an effect, the path of its file
}

// The responses that promise something. Only single writes are checked: most responses are one.
var (
	madeSession = regexp.MustCompile(`HTTP/1\.1 201 [^{]*\{"id":"(session_[0-9a-f]{32})"`)
	tookMessage = regexp.MustCompile(`"message_id":"(message_[0-9a-f]{32})","seq"`)
	showedEvent = regexp.MustCompile(`"id":"(event_[0-9a-f]{32})"`)
)

// record runs a server under strace while clients drive it, kills it, starts it again, and stops
// it.
func record(t *testing.T, turns int) recording {
	t.Helper()
	m := newMachine(t)
	root := filepath.Dir(filepath.Dir(m.data))
	model := m.worker()
	var logs []io.Reader
	for life := range 2 {
		log := filepath.Join(t.TempDir(), "trace")
		if !m.start("strace", "-f", "-qq", "--seccomp-bpf", "-y", "-xx", "-s", "16777216", "-e", "signal=none", "-e", "trace="+crashfs.Calls, "-o", log) {
			t.Fatal("the server does not serve")
		}
		m.clients(2, model, fmt.Sprint("life", life, "-"), func(turn int) bool { return turn == turns/4 })
		if life == 1 {
			m.kept()
			m.stop()
		} else {
			m.kill()
		}
		file, err := os.Open(log)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		logs = append(logs, file)
	}
	ops, err := crashfs.Read(io.MultiReader(logs...), root)
	if err != nil {
		t.Fatal(err)
	}
	data, err := filepath.Rel(root, m.data)
	if err != nil {
		t.Fatal(err)
	}
	r := recording{ops: ops, root: root, data: data, final: map[string]string{}}
	for id, text := range m.told.events {
		r.final[string(id)] = text
	}
	r.promise()
	return r
}

// promise finds the promises in the recorded operations.
func (r *recording) promise() {
	known := map[string]bool{}
	add := func(op int, kind, id string) {
		if !known[id] { // a repeated promise is not new
			known[id] = true
			r.promises = append(r.promises, promise{op, kind, id})
		}
	}
	for i, op := range r.ops {
		switch {
		case op.Kind == crashfs.SocketWrite:
			for kind, pattern := range map[string]*regexp.Regexp{"session": madeSession, "message": tookMessage, "event": showedEvent} {
				for _, found := range pattern.FindAllSubmatch(op.Bytes, -1) {
					add(i, kind, string(found[1]))
				}
			}
		case op.Kind == crashfs.Create && strings.Contains(op.Path, "/effects/"):
			_, name, _ := strings.Cut(op.Path, "/effects/")
			add(i, "effect", name)
		}
	}
}

// cut is one power cut.
type cut struct {
	at     int // after this many operations
	fate   crashfs.Fate
	folder string
}

func (c cut) String() string { return fmt.Sprintf("after operation %d, %s", c.at, c.fate) }

// verdict is the result of all cuts.
type verdict struct {
	states   int
	promises int // that were checked
	unsynced int // writes that a cut could have lost
	damaged  int // states with violations
	broken   []string
}

// plan says how the power is cut.
type plan struct {
	disk   *crashfs.Disk // still empty
	states int           // number of cuts
	runOn  int           // after cuts at multiples of it the work is also completed; 0: never
	seed   uint64
}

// cuts cuts the power at seeded random moments of a recording, rebuilds the content of the disk,
// and checks each state.
func (r recording) cuts(t *testing.T, p plan) verdict {
	t.Helper()
	dice := rand.New(rand.NewPCG(p.seed, 5))
	moments := make([]int, p.states)
	for i := range moments {
		moments[i] = 1 + dice.IntN(len(r.ops))
	}
	slices.Sort(moments)
	base, done := memoryFolder(t), 0
	var v verdict
	var mu sync.Mutex // guards v
	work := make(chan cut)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for c := range work {
				broken, promises := r.look(t.Context(), c, p.runOn)
				mu.Lock()
				v.promises += promises
				if len(broken) > 0 {
					v.damaged++
				}
				for _, text := range broken {
					v.broken = append(v.broken, fmt.Sprintf("%s: %s", c, text))
				}
				mu.Unlock()
				_ = os.RemoveAll(c.folder) // the parent folder is removed with the test
			}
		})
	}
	for i, at := range moments {
		for ; done < at; done++ {
			if err := p.disk.Apply(r.ops[done]); err != nil {
				t.Fatalf("operation %d: %v", done, err)
			}
		}
		c := cut{at: at, fate: crashfs.Fates()[i%len(crashfs.Fates())], folder: filepath.Join(base, fmt.Sprint(i))}
		if err := os.Mkdir(c.folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := p.disk.Cut(c.folder, c.fate, dice); err != nil {
			t.Fatal(err)
		}
		v.unsynced += p.disk.Unsynced()
		work <- c
	}
	close(work)
	group.Wait()
	v.states = p.states
	return v
}

// memoryFolder returns a folder in memory, where syncs cost nothing, if there is one.
func memoryFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "perdure-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// look opens the state after a power cut and returns the violations, and the number of checked
// promises.
func (r recording) look(ctx context.Context, c cut, runOn int) (broken []string, promises int) {
	dir := filepath.Join(c.folder, r.data)
	st, err := sqlite.Open(ctx, sqlite.Config{Dir: dir, Readers: 1})
	if err != nil {
		return []string{"it does not open: " + err.Error()}, 0
	}
	record, err := readAll(ctx, st)
	if err = errors.Join(err, st.Close()); err != nil {
		return []string{err.Error()}, 0
	}
	for _, check := range []chaos.Invariant{chaos.OneTerminal, chaos.GaplessJournal, chaos.Paired} {
		for _, v := range check(record) {
			broken = append(broken, v.Invariant+": "+v.Text)
		}
	}
	if text, err := integrity(ctx, filepath.Join(dir, "perdure.db")); err != nil || text != "ok" {
		broken = append(broken, fmt.Sprintf("I15: %s, %v", text, err))
	}
	here := r.here(record, &broken)
	for _, p := range r.promises {
		if p.op >= c.at {
			break
		}
		if promises++; !here[p.id] {
			broken = append(broken, fmt.Sprintf("I1: %s %s was told at operation %d and is gone", p.kind, p.id, p.op))
		}
	}
	if runOn > 0 && c.at%runOn == 0 && len(broken) == 0 {
		broken = finish(ctx, dir)
	}
	return broken, promises
}

// here returns the parts of a record that may have been promised: the ids, and the effects whose
// calls were claimed.
func (r recording) here(record chaos.Record, broken *[]string) map[string]bool {
	here := map[string]bool{}
	for _, j := range record.Journals {
		here[string(j.Session)] = true
		asked := map[perdure.CallID]string{}
		for _, e := range j.Events {
			here[string(e.ID)] = true
			text, err := perdure.EncodeEvent(e)
			if final, known := r.final[string(e.ID)]; err != nil || known && final != string(text) {
				*broken = append(*broken, fmt.Sprintf("I6: event %s is %s, want %s, %v", e.ID, text, final, err))
			}
			switch f := e.Fact.(type) {
			case perdure.MessageReceived:
				here[string(f.Message.ID)] = true
			case perdure.OutputCompleted:
				for _, call := range f.Message.Calls() {
					asked[call.ID] = string(call.Arguments)
				}
			case perdure.ToolStarted:
				_, name, _ := strings.Cut(asked[f.CallID], "effects/")
				name, _, _ = strings.Cut(name, `"`)
				here[name] = true
			}
		}
	}
	return here
}

// readAll reads every journal of a store.
func readAll(ctx context.Context, st store.Store) (record chaos.Record, err error) {
	err = st.View(ctx, func(r store.Reader) error {
		all, err := r.Sessions().List(store.SessionFilter{})
		if err != nil {
			return err
		}
		for _, s := range all {
			events, err := r.Journal().Events(s.ID, 0, 1<<20)
			if err != nil {
				return err
			}
			if int64(len(events)) != s.LastSeq {
				return fmt.Errorf("I6: session %s says %d events and has %d", s.ID, s.LastSeq, len(events))
			}
			record.Journals = append(record.Journals, chaos.Journal{Session: s.ID, Events: events})
		}
		return nil
	})
	return record, err
}

// integrity is the result of SQLite's integrity check.
func integrity(ctx context.Context, path string) (text string, err error) {
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		return "", err
	}
	defer db.Close()
	var orphans int
	err = db.QueryRowContext(ctx, `PRAGMA integrity_check`).Scan(&text)
	if err == nil {
		rows, wrong := db.QueryContext(ctx, `PRAGMA foreign_key_check`)
		if wrong != nil {
			return text, wrong
		}
		for rows.Next() {
			orphans++
		}
		err = errors.Join(rows.Err(), rows.Close())
	}
	if orphans > 0 {
		text += fmt.Sprintf("; %d rows without their parents", orphans)
	}
	return text, err
}

// finish resumes the work after a power cut, waits for its end, and returns the violations (I4).
func finish(ctx context.Context, dir string) (broken []string) {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	eng, err := Program{}.openHere(ctx, cli.OpenOptions{Access: cli.Writing, Dir: dir, AllowShell: true, AskModels: true, Serve: true})
	if err != nil {
		return []string{"it does not start: " + err.Error()}
	}
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1) // capacity 1: one result
	go func() { ended <- eng.Run(work) }()
	all, err := eng.Sessions().List(ctx, 0)
	for _, s := range all {
		if s.LastSeq > 1 { // it has received a message
			err = errors.Join(err, eng.Sessions().WaitIdle(ctx, s.ID))
		}
	}
	record, unread := readAll(ctx, eng.store)
	stop()
	if err := errors.Join(err, unread, <-ended, eng.Close()); err != nil && !errors.Is(err, context.Canceled) {
		broken = append(broken, "I4: "+err.Error())
	}
	for _, v := range chaos.Check(record) {
		broken = append(broken, "at the end "+v.Invariant+": "+v.Text)
	}
	return broken
}

// TestR05PowerCut records what a server does to its files and sends to its clients, and cuts the
// power at random moments, with unsynced writes lost, kept, out of order and torn. Every resulting
// disk can be opened and is intact, all promises are kept, every effect was claimed, and the work
// continues from there. PERDURE_POWER_CUTS is the number of cuts.
func TestR05PowerCut(t *testing.T) {
	t.Parallel()
	needTracing(t, "R5")
	states, seed := soak.Count(t, "PERDURE_POWER_CUTS", 100, 10000), uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	began := time.Now()
	r := record(t, 32) // enough for a checkpoint in the middle of a process
	recorded := time.Since(began)

	v := r.cuts(t, plan{disk: &crashfs.Disk{}, states: states, runOn: 10, seed: seed})

	t.Logf("%d operations, %d promises, recorded in %s; %d states, with %d unsynced writes and %d promises looked for, in %s",
		len(r.ops), len(r.promises), recorded.Round(time.Millisecond), v.states, v.unsynced, v.promises, (time.Since(began) - recorded).Round(time.Millisecond))
	for _, text := range v.broken[:min(len(v.broken), 10)] {
		t.Error(text)
	}
	if len(v.broken) > 10 {
		t.Errorf("and %d more", len(v.broken)-10)
	}
	if v.promises == 0 || v.unsynced == 0 {
		t.Error("nothing was at stake: the recording proves nothing")
	}

	// The same on a disk that reports syncs without doing them, as with synchronous=OFF: the test
	// must detect it.
	lying := r.cuts(t, plan{disk: &crashfs.Disk{Lies: true}, states: min(states, 30), seed: seed})
	if lying.damaged < lying.states/2 {
		t.Errorf("a disk that lies breaks nothing, so nothing was looked at: %d of %d states", lying.damaged, lying.states)
	}
	t.Logf("a disk that lies: something is broken in %d of %d states", lying.damaged, lying.states)
}
