//go:build live

package temporal

import (
	"bufio"
	"context"
	"log/slog"
	"net/rpc"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/perdure/perdure"
)

// TestMain is also the main function of the workers that the live tests start and kill.
func TestMain(m *testing.M) {
	if os.Getenv("PERDURE_TEMPORAL_WORKER") != "" {
		if err := liveWorker(); err != nil {
			slog.Error("The worker ends.", "err", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// liveConfig returns the scheduler's configuration in live tests.
func liveConfig(c client.Client, home string) Config {
	return Config{Client: c, Prefix: "live", Home: home, Heartbeat: liveHeartbeat, Patience: 3 * time.Second,
		Reconcile: 500 * time.Millisecond, Drain: 2 * time.Second}
}

// liveWorker is one worker process, until SIGTERM.
func liveWorker() error {
	name, home := os.Getenv("PERDURE_TEMPORAL_WORKER"), os.Getenv("PERDURE_TEMPORAL_HOME")
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})).With("worker", name))
	ledger, err := rpc.Dial("tcp", os.Getenv("PERDURE_TEMPORAL_LEDGER"))
	if err != nil {
		return err
	}
	c, _, err := Dial(DialOptions{Address: os.Getenv("PERDURE_TEMPORAL_SERVER_ADDRESS"), Identity: name, Log: log.NewStructuredLogger(slog.Default())})
	if err != nil {
		return err
	}
	s, err := New(liveConfig(c, home))
	if err != nil {
		return err
	}
	s.ensureEvery = time.Second
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return s.Run(ctx, &ledgerHost{client: ledger, worker: name, home: home, driving: map[string]*driving{}})
}

// world is a server, a ledger, and workers.
type world struct {
	*ledger
	t       *testing.T
	ledgers string // its address
	server  *exec.Cmd
	address string // of the server
	data    string
	client  client.Client
	starter starter
	workers map[string]*exec.Cmd
}

// newWorld starts a server.
func newWorld(t *testing.T) *world {
	t.Helper()
	if os.Getenv("PERDURE_TEMPORAL_SERVER") == "" {
		t.Fatal("PERDURE_TEMPORAL_SERVER is not set: run  make temporal  instead, which builds the server")
	}
	w := &world{ledger: newLedger(), t: t, address: "127.0.0.1:0", data: filepath.Join(t.TempDir(), "temporal.db"), workers: map[string]*exec.Cmd{}}
	w.ledgers = w.serve(t)
	w.startServer()
	c, _, err := Dial(DialOptions{Address: w.address, Log: discardLogger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w.client, w.starter = c, newStarter(names{"live"}, c)
	return w
}

// startServer starts the server, at the former address if there was one, and waits until it is
// ready.
func (w *world) startServer() {
	w.t.Helper()
	cmd := exec.Command(os.Getenv("PERDURE_TEMPORAL_SERVER"), "-address", w.address, "-data", w.data, "-log", "fatal")
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	w.start(cmd)
	line, err := bufio.NewReader(out).ReadString('\n')
	fields := strings.Fields(line)
	if err != nil || len(fields) < 2 || fields[0] != "ready" {
		w.t.Fatalf("the server says %q, error %v", line, err)
	}
	w.server, w.address = cmd, fields[1]
}

// start starts a process that ends with the test.
func (w *world) start(cmd *exec.Cmd) {
	w.t.Helper()
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { kill(cmd) })
}

// kill kills a process, also one that is stopped, and waits for its end.
func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()         // likewise
}

// send sends a signal to a process.
func (w *world) send(cmd *exec.Cmd, s syscall.Signal) {
	w.t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}

// worker starts a worker process.
func (w *world) worker(name, home string) {
	w.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PERDURE_TEMPORAL_WORKER="+name, "PERDURE_TEMPORAL_HOME="+home,
		"PERDURE_TEMPORAL_LEDGER="+w.ledgers, "PERDURE_TEMPORAL_SERVER_ADDRESS="+w.address)
	w.start(cmd)
	w.workers[name] = cmd
}

// put puts a row into the ledger and tells Temporal of it.
func (w *world) put(r item) {
	w.t.Helper()
	w.change(func(rows map[string]*item) { rows[r.ID] = &r })
	w.tell(r.ID)
}

// tell tells Temporal of a row, as the waker would.
func (w *world) tell(id string) {
	w.t.Helper()
	r, err := w.row(id), error(nil)
	if r.Task {
		err = w.starter.run(w.t.Context(), WaitingRun{ID: perdure.TaskID(id), Grant: r.Grant, Home: r.Home})
	} else {
		err = w.starter.session(w.t.Context(), WaitingSession{ID: perdure.SessionID(id), Seq: r.Seq, Grant: r.Grant, Home: r.Home})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// release lets the work of a row end.
func (w *world) release(id string) { w.change(func(rows map[string]*item) { rows[id].Held = false }) }

// taken waits until a worker has a row.
func (w *world) taken(id, by string) item {
	w.t.Helper()
	return w.await(w.t, id+" to be taken", id, func(r item) bool { return by == "" && r.Owner != "" || by != "" && r.Owner == by })
}

// done waits until everything that was written to a row is worked on.
func (w *world) done(id string) item {
	w.t.Helper()
	return w.await(w.t, "the end of "+id, id, func(r item) bool { return r.Ended || !r.Task && r.Read >= r.Seq })
}

// other returns the other of two workers.
func other(name string) string {
	if name == "a" {
		return "b"
	}
	return "a"
}

// TestLive runs the scheduler in processes of its own, with a real server.
func TestLive(t *testing.T) {
	laws := []struct {
		name string
		law  func(*testing.T, *world)
	}{
		{"a_session_is_driven_and_rests", liveDrives},
		{"a_run_begins_in_another_process", livePlaces},
		{"work_moves_when_its_process_is_killed", liveKilled},
		{"a_paused_process_writes_nothing_later", livePaused},
		{"work_continues_while_the_server_is_paused", liveOutage},
		{"everything_ends_although_the_data_is_deleted", liveWiped},
		{"work_goes_to_its_home", liveHome},
		{"a_stopping_process_gives_its_work_away", liveDrained},
		{"an_operator_cancels_a_task", liveCanceled},
		{"an_operator_terminates_a_workflow", liveTerminated},
		{"a_living_owner_gets_the_next_grant", liveJoins},
		{"an_error_shows_its_kind_only", liveFailing},
	}
	for _, l := range laws {
		t.Run(l.name, func(t *testing.T) {
			w := newWorld(t)
			l.law(t, w)
			w.checkHistories()
			w.record(l.name)
		})
	}
}

func liveDrives(t *testing.T, w *world) {
	w.worker("a", "")
	w.put(item{ID: "s", Seq: 3})
	w.done("s")
	w.change(func(rows map[string]*item) { rows["s"].Seq = 5 })
	w.tell("s")
	if r := w.done("s"); len(r.History) != 2 || r.History[0] != "a/1" || r.History[1] != "a/2" {
		t.Errorf("it was driven by %v, want a/1 and a/2", r.History)
	}
}

func livePlaces(t *testing.T, w *world) {
	w.put(item{ID: "t", Task: true})
	w.worker("b", "")
	if r := w.done("t"); len(r.History) != 1 || r.History[0] != "b/1" {
		t.Errorf("it was run by %v, want b/1", r.History)
	}
}

func liveKilled(t *testing.T, w *world) {
	w.worker("a", "")
	w.worker("b", "")
	for i, r := range []item{{ID: "s", Seq: 1, Held: true}, {ID: "t", Task: true, Held: true}} {
		w.put(r)
		r = w.taken(r.ID, "")
		if i == 1 {
			w.worker(other(r.Owner), "") // the one that was killed for the session
			w.await(t, "t", r.ID, func(item) bool { return true })
		}
		began := time.Now()
		kill(w.workers[r.Owner])
		moved := w.await(t, "another process", r.ID, func(n item) bool { return n.Owner == other(r.Owner) })
		t.Logf("%s was killed: moved after %s; the heartbeat timeout is %s", r.Owner, time.Since(began).Round(time.Millisecond), liveHeartbeat)
		if moved.Grant <= r.Grant {
			t.Errorf("moved under grant %d, want one above %d", moved.Grant, r.Grant)
		}
		w.release(r.ID)
		w.done(r.ID)
	}
}

func livePaused(t *testing.T, w *world) {
	w.worker("a", "")
	w.worker("b", "")
	w.put(item{ID: "s", Seq: 1, Held: true})
	r := w.taken("s", "")
	w.send(w.workers[r.Owner], syscall.SIGSTOP)
	w.taken("s", other(r.Owner))
	w.send(w.workers[r.Owner], syscall.SIGCONT)
	w.release("s")
	n := w.done("s")
	if len(n.History) != 1 || !strings.HasPrefix(n.History[0], other(r.Owner)+"/") {
		t.Errorf("it was driven by %v, want %s only: %s was paused", n.History, other(r.Owner), r.Owner)
	}
}

func liveOutage(t *testing.T, w *world) {
	w.worker("a", "h")
	w.put(item{ID: "s", Seq: 1, Held: true, Home: "h"})
	before := w.taken("s", "a")
	w.send(w.server, syscall.SIGSTOP)
	w.change(func(rows map[string]*item) { rows["late"] = &item{ID: "late", Seq: 1} })
	<-time.After(6 * liveHeartbeat) // the outage itself, longer than timeout and patience
	w.send(w.server, syscall.SIGCONT)
	w.done("late") // Temporal hands out work again
	if after := w.row("s"); after.Owner != "a" || len(after.History) != 0 {
		t.Errorf("after the outage: %+v, want a to have it still; before: %+v", after, before)
	}
	w.release("s")
	if r := w.done("s"); len(r.History) != 1 {
		t.Errorf("it was driven by %v, want once", r.History)
	}
}

func liveWiped(t *testing.T, w *world) {
	w.worker("a", "")
	w.worker("b", "")
	w.put(item{ID: "s", Seq: 1, Held: true})
	w.put(item{ID: "t", Task: true, Held: true})
	s := w.taken("s", "")
	w.taken("t", "")
	kill(w.server)
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(w.data + suffix); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	w.startServer()
	w.change(func(rows map[string]*item) { rows["late"] = &item{ID: "late", Task: true} })
	w.await(t, "the session to be placed again", "s", func(r item) bool { return r.Grant > s.Grant })
	w.release("s")
	w.release("t")
	for _, id := range []string{"s", "t", "late"} {
		w.done(id)
	}
}

func liveHome(t *testing.T, w *world) {
	w.worker("a", "h1")
	w.put(item{ID: "first", Seq: 1})
	w.done("first") // so a is there, and polls the general queue
	w.put(item{ID: "t", Task: true, Home: "h2"})
	w.worker("b", "h2")
	if r := w.done("t"); r.Homeless || !strings.HasPrefix(r.History[0], "b/") {
		t.Errorf("it was run by %v, want b, which has home h2", r.History)
	}
}

func liveDrained(t *testing.T, w *world) {
	w.worker("a", "")
	w.worker("b", "")
	w.put(item{ID: "s", Seq: 1, Held: true})
	r := w.taken("s", "")
	w.send(w.workers[r.Owner], syscall.SIGTERM)
	w.taken("s", other(r.Owner))
	w.release("s")
	if n := w.done("s"); n.Lost != 0 {
		t.Errorf("%d writes under an old grant, want none: the process gave the work away", n.Lost)
	}
}

func liveCanceled(t *testing.T, w *world) {
	w.worker("a", "")
	w.put(item{ID: "t", Task: true, Held: true})
	w.taken("t", "a")
	id := w.starter.names.run("t")
	if err := w.client.CancelWorkflow(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	if r := w.done("t"); !r.Canceled {
		t.Error("the ledger does not know of the cancel")
	}
	if err := w.client.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil); err != nil {
		t.Errorf("the workflow ended with %v, want that it waited for the end of the task", err)
	}
}

func liveTerminated(t *testing.T, w *world) {
	w.worker("a", "")
	w.put(item{ID: "s", Seq: 1, Held: true})
	before := w.taken("s", "a")
	if err := w.client.TerminateWorkflow(t.Context(), w.starter.names.session("s"), "", "a test"); err != nil {
		t.Fatal(err)
	}
	w.await(t, "the process to give it back", "s", func(r item) bool { return r.Owner == "" || r.Grant > before.Grant })
	w.await(t, "the reconciler to place it again", "s", func(r item) bool { return r.Grant > before.Grant })
	w.release("s")
	w.done("s")
}

func liveJoins(t *testing.T, w *world) {
	w.worker("a", "")
	w.put(item{ID: "s", Seq: 1, Held: true})
	before := w.taken("s", "a")
	if err := w.client.TerminateWorkflow(t.Context(), w.starter.names.session("s"), "", "a test"); err != nil {
		t.Fatal(err)
	}
	w.tell("s") // the process has not noticed yet, or is patient
	w.await(t, "the next grant", "s", func(r item) bool { return r.Grant > before.Grant })
	w.release("s")
	if r := w.done("s"); len(r.History) != 1 || r.History[0] != "a/2" {
		t.Errorf("it was driven by %v, want once, by a under its second grant", r.History)
	}
}

func liveFailing(t *testing.T, w *world) {
	w.worker("a", "")
	w.put(item{ID: "s", Seq: 1, Failing: true})
	id := w.starter.names.session("s")
	history := w.client.GetWorkflowHistory(t.Context(), id, "", true, enums.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		e, err := history.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e.GetEventType() == enums.EVENT_TYPE_ACTIVITY_TASK_FAILED {
			if text := e.GetActivityTaskFailedEventAttributes().GetFailure().GetMessage(); text != "internal" {
				t.Errorf("the history says %q, want the kind", text)
			}
			break
		}
	}
	w.change(func(rows map[string]*item) { rows["s"].Failing = false })
	w.done("s")
}
