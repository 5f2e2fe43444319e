package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/shell"
)

// stubborn is a command that ignores SIGTERM, with a child that does, too. It writes their pids to
// the file pids.
const stubborn = `trap "" TERM; (trap "" TERM; exec sleep 600) & echo $$ $! > pids.new; mv pids.new pids; wait; wait`

const stubbornScript = `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bash, args: {command: %q}}}]
steps: [{text: it runs, repeat: true}]
`

// pidsIn waits for the pids of the command in a directory.
func pidsIn(t *testing.T, dir string) (pids []int) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(filepath.Join(dir, "pids"))
		if err == nil {
			for word := range strings.FieldsSeq(string(text)) {
				pid, err := strconv.Atoi(word)
				if err != nil {
					t.Fatal(err)
				}
				pids = append(pids, pid)
			}
			return pids
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("the command did not start")
		}
	}
}

// runningOf returns those of the processes that are running.
func runningOf(pids []int) (alive []int) {
	for _, pid := range pids {
		if syscall.Kill(pid, 0) == nil {
			alive = append(alive, pid)
		}
	}
	return alive
}

// forceHost is an engine with commands whose grace period is longer than any test.
type forceHost struct {
	*local.Engine
	dir string
}

func newForceHost(t *testing.T, st store.Store, dir, runs string) forceHost {
	t.Helper()
	bash, err := shell.New(shell.Config{RunsDir: runs, Dir: dir, Grace: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	m, err := scripted.Parse("force", fmt.Appendf(nil, stubbornScript, stubborn))
	if err != nil {
		t.Fatal(err)
	}
	tools := tool.NewRegistry(append(background.Tools(background.Config{}), bash)...)
	eng, err := local.Open(t.Context(), local.Config{Store: st, Model: m, Tools: tools,
		Timing: local.Timing{Grace: time.Hour}, Workers: local.Workers{Beat: time.Hour, Lease: 4 * time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return forceHost{eng, dir}
}

// begin starts the command, and returns its task and its processes.
func (h forceHost) begin(t *testing.T) (perdure.TaskID, []int) {
	t.Helper()
	s, err := h.Sessions().Create(t.Context(), perdure.Agent{})
	if err == nil {
		_, err = h.Send(t.Context(), s.ID, perdure.Text("go"))
	}
	if err != nil {
		t.Fatal(err)
	}
	pids := pidsIn(t, h.dir)
	tasks, err := h.Tasks().List(t.Context(), s.ID)
	if err != nil || len(tasks) != 1 {
		t.Fatalf("got %v, %v, want one task", tasks, err)
	}
	return tasks[0].ID, pids
}

// checkForced checks that a task is canceled, that its receipt claims what is so, and that nothing
// of the command is left (X4).
func checkForced(t *testing.T, eng engine.Engine, id perdure.TaskID, pids []int) {
	t.Helper()
	task, err := eng.Tasks().Wait(t.Context(), id)
	left := runningOf(pids)
	if err != nil || task.State != perdure.TaskCanceled || !task.ForceRequested() {
		t.Fatalf("got %+v, %v", task, err)
	}
	events, err := eng.Events(t.Context(), task.Session, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	var receipts []perdure.CancelReceipt
	for _, e := range events {
		if f, ok := e.Fact.(perdure.TaskCancelReceipt); ok {
			receipts = append(receipts, f.Receipt)
		}
	}
	switch {
	case len(receipts) != 1 || receipts[0].DeadAt.IsZero() != receipts[0].DidNotStop:
		t.Fatalf("receipts %+v, want one, which says either dead or did not stop", receipts)
	case !receipts[0].DidNotStop && len(left) > 0:
		t.Errorf("the receipt says dead, and %v are running (X4)", left)
	}
	for tick := time.NewTicker(5 * time.Millisecond); len(runningOf(pids)) > 0; {
		select { // on a slow machine the fence may come before the last process has gone
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("%v are running", runningOf(pids))
		}
	}
}

// TestForceOfACommand kills a command that ignores SIGTERM, with its child, at once and within a
// grace period of an hour (RC21, X4).
func TestForceOfACommand(t *testing.T) {
	t.Parallel()
	for _, canceled := range []bool{false, true} {
		t.Run(fmt.Sprintf("canceled before %t", canceled), func(t *testing.T) {
			t.Parallel()
			h := newForceHost(t, memory.New(memory.Config{}), t.TempDir(), t.TempDir())
			id, pids := h.begin(t)
			if canceled {
				if _, err := h.Tasks().Cancel(t.Context(), id, "user", ""); err != nil {
					t.Fatal(err)
				}
			}

			if _, err := h.Tasks().Force(t.Context(), id, "user", ""); err != nil {
				t.Fatal(err)
			}

			checkForced(t, h, id, pids)
		})
	}
}

// diesOfForce is a store whose engine dies when the request for force is committed: the caller has
// no answer, and nothing of the engine happens any more.
type diesOfForce struct {
	store.Store
	armed, dead atomic.Bool
	task        perdure.TaskID
}

func (d *diesOfForce) InTx(ctx context.Context, fn func(store.Tx) error) error {
	if d.dead.Load() {
		return perdure.Unavailable
	}
	err := d.Store.InTx(ctx, func(tx store.Tx) error {
		if d.dead.Load() {
			return perdure.Unavailable
		}
		return fn(tx)
	})
	if !d.armed.Load() {
		return err
	}
	task, readErr := store.Read(context.WithoutCancel(ctx), d.Store, func(r store.Reader) (perdure.Task, error) {
		return r.Tasks().Get("", d.task)
	})
	if readErr != nil || task.ForceRequested() {
		d.dead.Store(true)
		return perdure.Unavailable
	}
	return err
}

// TestForceAfterACrash kills an engine between the commit of the request and the kill. The next one
// kills the command (RC13 row 2, RC21).
func TestForceAfterACrash(t *testing.T) {
	t.Parallel()
	st, dir, runs := memory.New(memory.Config{}), t.TempDir(), t.TempDir()
	mortal := &diesOfForce{Store: st}
	first := newForceHost(t, mortal, dir, runs)
	id, pids := first.begin(t)
	mortal.task = id
	mortal.armed.Store(true)

	if _, err := first.Tasks().Force(t.Context(), id, "user", ""); err == nil {
		t.Fatal("the engine has survived its death")
	}
	if left := runningOf(pids); len(left) != len(pids) {
		t.Fatalf("only %v of %v are running: the dead engine has killed", left, pids)
	}

	checkForced(t, newForceHost(t, st, dir, runs), id, pids)
}

// TestForceAcrossKills requests force from a server that is killed during the request or right
// after it. The next server kills the command (RC21).
func TestForceAcrossKills(t *testing.T) {
	t.Parallel()
	for _, during := range []bool{true, false} {
		t.Run(fmt.Sprintf("during the request %t", during), func(t *testing.T) {
			t.Parallel()
			d := newDoorway(t, nil)
			d.env = append(d.env, "PERDURE_SANDBOX=none") // the pids are those of this machine
			d.start()
			id := d.begin(d.script(fmt.Sprintf(stubbornScript, stubborn)), "begin")
			d.insist(say(id, "go", "go"))
			pids := pidsIn(t, d.work)
			task := d.taskOf(id)
			died := make(chan struct{})
			kill := func() {
				defer close(died)
				d.kill()
				d.start()
			}
			if during {
				go kill()
			}
			r, _ := d.insist(post{"/v1/tasks/" + string(task) + "/cancel", "force", `{"force": true}`})
			if r.status != http.StatusAccepted {
				t.Fatalf("got %d %s", r.status, r.body)
			}
			if !during {
				kill()
			}
			<-died

			d.until("the end of the task", func() bool {
				var got perdure.Task
				d.get("/v1/tasks/"+string(task)).into(t, &got)
				return got.State == perdure.TaskCanceled && got.ForceRequested()
			})
			d.until("the end of the command", func() bool { return len(runningOf(pids)) == 0 })
		})
	}
}
