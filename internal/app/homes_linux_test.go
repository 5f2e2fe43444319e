package app

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/backup"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/internal/secret"
)

// shared are two servers, each with its own data directory, that share a database. Commands of the
// first one outlive it.
type shared struct {
	one, two *doorway
	role     string // as which the first one connects to the database
}

// newShared starts the first one. Both have a short lease, and flags. homeWait is how long work
// waits for its home. The second one is started once the first one has the work, or else it may
// take the session.
func newShared(t *testing.T, homeWait string, flags ...string) shared {
	t.Helper()
	url := pgtest.Database(t, nil)
	const first = "postgres://postgres@/"
	name, _, _ := strings.Cut(strings.TrimPrefix(url, first), "?")
	w := shared{one: newDoorway(t, nil), two: newDoorway(t, nil), role: "role_" + name}
	if err := pgtest.Shared(t).Exec(t.Context(), "CREATE ROLE "+w.role+" SUPERUSER LOGIN"); err != nil {
		t.Fatal(err)
	}
	w.one.env = append(w.one.env, "PERDURE_DATABASE="+strings.Replace(url, first, "postgres://"+w.role+"@/", 1))
	w.two.env = append(w.two.env, "PERDURE_DATABASE="+url)
	limits := []string{"--limits.lease=2s", "--limits.beat=200ms", "--limits.orphan-scan=200ms"}
	if homeWait != "" {
		limits = append(limits, "--limits.home-wait="+homeWait)
	}
	for _, d := range []*doorway{w.one, w.two} {
		d.serve = append(append(append(d.serve, "--allow-shell"), limits...), flags...)
		if err := os.MkdirAll(d.data, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	shareKeyring(t, w.one, w.two)
	w.one.start()
	return w
}

// shareKeyring creates a keyring for a server, and gives another one the same.
func shareKeyring(t *testing.T, one, two *doorway) {
	t.Helper()
	made := filepath.Join(one.data, backup.KeyringFile)
	if _, err := secret.Create(made); err != nil {
		t.Fatal(err)
	}
	keys, err := os.ReadFile(made)
	if err == nil {
		err = os.WriteFile(filepath.Join(two.data, backup.KeyringFile), keys, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// runsCommand starts a session at the first server whose model starts a command in the background.
// It returns the session, its task and the pid of the command.
func (w shared) runsCommand(command string) (perdure.SessionID, perdure.TaskID, int) {
	w.one.t.Helper()
	model := w.one.script(fmt.Sprintf(`
rules:
  - when: {last_role: notification}
    text: home
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: bash, args: {command: %q}}}]
  - when: {called: spawn_background}
    text: it runs
`, command))
	id := w.one.begin(model, "new")
	w.one.insist(say(id, "go", "go"))
	task := w.one.taskOf(id)
	w.one.untilRunning()
	return id, task, w.one.commandPID()
}

// commandPID returns the process id of the one running command of a data directory.
func (d *doorway) commandPID() int {
	d.t.Helper()
	all, err := processesIn(d.t.Context(), d.data)
	if err != nil || len(all) != 1 {
		d.t.Fatalf("commands of %s: %+v, %v", d.data, all, err)
	}
	return all[0].PID
}

// pidLives reports whether a process exists and is no zombie.
func pidLives(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, after, ok := strings.Cut(string(stat), ") ")
	return err == nil && ok && !strings.HasPrefix(after, "Z")
}

// task reads a task.
func (d *doorway) task(id perdure.TaskID) (task perdure.Task) {
	d.t.Helper()
	d.get("/v1/tasks/"+string(id)).into(d.t, &task)
	return task
}

// receipt returns the receipt of a canceled task, from the journal of its session.
func (d *doorway) receipt(session perdure.SessionID, task perdure.TaskID) (found perdure.CancelReceipt) {
	d.t.Helper()
	for _, event := range d.events(session) {
		if fact, ok := event.Fact.(perdure.TaskCancelReceipt); ok && event.Task == task {
			found = fact.Receipt
		}
	}
	return found
}

// waitsOrEnds waits until a task has ended or says that it waits for its home.
func (d *doorway) waitsOrEnds(id perdure.TaskID) (task perdure.Task) {
	d.t.Helper()
	d.until("the end of "+string(id)+", or that it waits for its home", func() bool {
		task = d.task(id)
		return task.State.Terminal() || task.WaitsForHome != ""
	})
	return task
}

// TestHomeReceipt: the server that runs a command is killed, and another one receives a cancel. It
// cannot see the command, so it does not report that the command is dead. The next process of the
// home stops the command, and only then the receipt says so (RC22, RC23, X4).
func TestHomeReceipt(t *testing.T) {
	t.Parallel()
	w := newShared(t, "10m")
	session, task, pid := w.runsCommand("sleep 1000")
	w.two.start()
	w.one.kill()
	w.two.insist(post{"/v1/tasks/" + string(task) + "/cancel", "cancel", "{}"})

	got := w.two.waitsOrEnds(task)
	if r := w.two.receipt(session, task); got.State.Terminal() || !r.DeadAt.IsZero() || !pidLives(pid) {
		t.Fatalf("the task is %s (%s) with receipt %+v; its command lives: %t", got.State, got.StateDetail, r, pidLives(pid))
	}

	w.one.start()
	w.two.until("the end of the task", func() bool { return w.two.task(task).State.Terminal() })
	got = w.two.task(task)
	if r := w.two.receipt(session, task); got.State != perdure.TaskCanceled || r.DeadAt.IsZero() || r.DidNotStop || pidLives(pid) {
		t.Errorf("the task is %s (%s) with receipt %+v; its command lives: %t", got.State, got.StateDetail, r, pidLives(pid))
	}
}

// TestHomeAdopts: another server does not judge a command that it cannot see, and the next process
// of its home adopts it (RC22, RC23).
func TestHomeAdopts(t *testing.T) {
	t.Parallel()
	w := newShared(t, "10m")
	gate := filepath.Join(w.one.work, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	_, task, pid := w.runsCommand("read line < gate; echo got $line; exit 7")
	w.two.start()
	w.one.kill()

	got := w.two.waitsOrEnds(task)
	if got.State.Terminal() || !pidLives(pid) {
		t.Fatalf("the task is %s (%s); its command lives: %t", got.State, got.StateDetail, pidLives(pid))
	}

	w.one.start()
	w.two.until("a second attempt", func() bool { return w.two.task(task).Attempt > 1 })
	if err := os.WriteFile(gate, []byte("through\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.two.until("the end of the task", func() bool { return w.two.task(task).State.Terminal() })
	if got = w.two.task(task); got.State != perdure.TaskSucceeded || got.Executions != 1 || !strings.Contains(got.Tail, "got through") {
		t.Errorf("the task is %s after %d executions, with the output %q", got.State, got.Executions, got.Tail)
	}
}

// TestHomeLost: the home of a command does not come back in time. Another server ends the work
// without it, and says that it knows nothing of the command (RC24). When the home comes back, it
// stops the command of a canceled task, but not of one whose outcome is unknown (RC30).
func TestHomeLost(t *testing.T) {
	t.Parallel()
	for _, cancel := range []bool{false, true} {
		t.Run(fmt.Sprint("cancel ", cancel), func(t *testing.T) {
			t.Parallel()
			w := newShared(t, "1s")
			session, task, pid := w.runsCommand("sleep 1000")
			w.two.start()
			w.one.kill()
			want := perdure.TaskUnknown
			if cancel {
				w.two.insist(post{"/v1/tasks/" + string(task) + "/cancel", "cancel", "{}"})
				want = perdure.TaskCanceled
			}
			w.two.until("the end of the task", func() bool { return w.two.task(task).State.Terminal() })

			got, r := w.two.task(task), w.two.receipt(session, task)
			if got.State != want || !r.DeadAt.IsZero() || r.DidNotStop != cancel || got.WaitsForHome != "" {
				t.Errorf("the task is %s (%s), waits for %q, with receipt %+v", got.State, got.StateDetail, got.WaitsForHome, r)
			}
			if !pidLives(pid) {
				t.Error("the command of another machine is dead")
			}

			w.one.start()
			if !cancel {
				w.two.rest(session) // its home has answered the notification
				if again := w.two.task(task); again.State != perdure.TaskUnknown || !pidLives(pid) {
					t.Errorf("at home, the task is %s; its command lives: %t", again.State, pidLives(pid))
				}
				return
			}
			w.two.until("the end of the command", func() bool { return !pidLives(pid) })
			w.two.until("a receipt that says so", func() bool { return !w.two.receipt(session, task).DeadAt.IsZero() })
		})
	}
}

// TestHomePaused: the server that runs a command is paused beyond its lease, and another one
// receives a cancel. Nobody reports the command as dead while it runs, and the paused server stops
// it once it continues, as a new worker of the same home (RC18, RC23).
func TestHomePaused(t *testing.T) {
	t.Parallel()
	w := newShared(t, "10m")
	session, task, pid := w.runsCommand("sleep 1000")
	w.two.start()
	w.one.signal(syscall.SIGSTOP)
	w.two.insist(post{"/v1/tasks/" + string(task) + "/cancel", "cancel", "{}"})

	got := w.two.waitsOrEnds(task)
	if r := w.two.receipt(session, task); got.State.Terminal() || !r.DeadAt.IsZero() || !pidLives(pid) {
		t.Errorf("the task is %s (%s) with receipt %+v; its command lives: %t", got.State, got.StateDetail, r, pidLives(pid))
	}

	w.one.signal(syscall.SIGCONT)
	w.two.until("the end of the task", func() bool { return w.two.task(task).State.Terminal() })
	got = w.two.task(task)
	if r := w.two.receipt(session, task); got.State != perdure.TaskCanceled || got.Attempt < 2 || r.DeadAt.IsZero() || r.DidNotStop || pidLives(pid) {
		t.Errorf("the task is %s in attempt %d with receipt %+v; its command lives: %t", got.State, got.Attempt, r, pidLives(pid))
	}
}

// signal sends a signal to the server.
func (d *doorway) signal(s syscall.Signal) {
	d.t.Helper()
	if err := d.server.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
}

// TestHomeForeground: the driver of a session is killed while a command runs in the foreground.
// Another server does not acquire the session, and the next process of the home adopts the command
// (RC23).
func TestHomeForeground(t *testing.T) {
	t.Parallel()
	w := newShared(t, "10m")
	gate := filepath.Join(w.one.work, "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	_, task, _ := w.runsCommand("sleep 1000") // shows when the other server has looked for work
	session := w.one.begin(w.one.script(`
steps:
  - calls: [{name: bash, args: {command: "read line < gate; echo got $line"}}]
  - text: done
`), "foreground")
	w.one.insist(say(session, "command", "go"))
	w.one.until("the second command", func() bool {
		all, err := processesIn(t.Context(), w.one.data)
		return err == nil && len(all) == 2 && all[0].PID != 0 && all[1].PID != 0
	})
	w.two.start()
	w.one.kill()
	w.two.waitsOrEnds(task)
	w.two.insist(say(session, "later", "still there?"))

	for _, event := range w.two.events(session) {
		switch fact := event.Fact.(type) {
		case perdure.ToolTakenOver, perdure.ToolCompleted, perdure.ToolUnknown:
			t.Errorf("another server judged the call: %+v", fact)
		}
	}

	w.one.start()
	if err := os.WriteFile(gate, []byte("through\n"), 0o600); err != nil { // blocks until the command reads
		t.Fatal(err)
	}
	w.two.rest(session)
	var how perdure.TakeOver
	result := ""
	for _, event := range w.two.events(session) {
		switch fact := event.Fact.(type) {
		case perdure.ToolTakenOver:
			how = fact.How
		case perdure.ToolCompleted:
			result = string(fact.Result.Result)
		}
	}
	if how != perdure.TakeOverAdopt || !strings.Contains(result, "got through") {
		t.Errorf("taken over by %q, with the result %s", how, result)
	}
}
