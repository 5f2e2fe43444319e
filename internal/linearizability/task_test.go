package linearizability

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

// TestR17Tasks lets clients create, take over, cancel and end the same tasks: the first end counts.
func TestR17Tasks(t *testing.T) {
	t.Parallel()
	check(t, tasks(), histories, operations)
}

// The operations on a task besides read.
const (
	create = "create"
	over   = "take_over"
	cancel = "cancel"
	end    = "end"
)

// taskRow is a task in the model. The zero value does not exist.
type taskRow struct {
	State   perdure.TaskState
	Attempt int
	Result  string // of the first end
	Cancel  string // who canceled it first
}

// taskRequest is one operation on a task.
type taskRequest struct {
	Key     int
	What    string
	Attempt int               // the fence
	To      perdure.TaskState // end
	Word    string
}

func (r taskRequest) key() int    { return r.Key }
func (r taskRequest) reads() bool { return r.What == read }

// taskAnswer is the result of an operation.
type taskAnswer struct {
	Answer  perdure.UpdateAnswer
	Created bool
	Ended   bool // this write ended it
	Refused perdure.Kind
	Row     taskRow
}

func (a taskAnswer) yes() bool { return a.Answer == perdure.Updated }

// tasks is the game of a task's record: fenced by the attempt, and ended once.
func tasks() game {
	return game{
		name: "tasks",
		model: porcupine.Model{
			Partition: partition, Init: func() any { return taskRow{} }, DescribeOperation: describe,
			Step: func(state, input, output any) (bool, any) {
				want, next := state.(taskRow).after(input.(taskRequest))
				got, known := output.(taskAnswer)
				return !known || got == want, next
			},
		},
		start: func(session perdure.SessionID, keys int) play {
			p := &taskPlay{session: session}
			for range keys {
				p.ids = append(p.ids, core.NewID[perdure.TaskID]())
			}
			for range clients {
				p.known = append(p.known, make([]taskRow, keys))
			}
			return p
		},
	}
}

// after is a second implementation of the rules of 7.3, for the operations of these clients.
func (row taskRow) after(r taskRequest) (taskAnswer, taskRow) {
	there, ended := row.State != "", row.State.Terminal()
	switch {
	case r.What == create && !there:
		row = taskRow{State: perdure.TaskRunning, Attempt: 1}
		return taskAnswer{Created: true, Row: row}, row
	case r.What == create:
		return taskAnswer{Row: row}, row
	case !there:
		return taskAnswer{Refused: perdure.NotFound}, row
	case r.What == read:
		return taskAnswer{Row: row}, row
	case r.Attempt != row.Attempt:
		return taskAnswer{Answer: perdure.UpdateLost, Row: row}, row
	case ended && (r.What == over || r.What == end && r.To != row.State):
		return taskAnswer{Answer: perdure.UpdateSettled, Row: row}, row
	case ended: // writes to an ended task change nothing of this
	case r.What == over:
		row.Attempt++
	case r.What == cancel && row.Cancel == "":
		row.Cancel = r.Word
	case r.What == end:
		row.State, row.Result = r.To, r.Word
	}
	return taskAnswer{Answer: perdure.Updated, Row: row, Ended: r.What == end && !ended}, row
}

// taskPlay is one history of tasks.
type taskPlay struct {
	session perdure.SessionID
	ids     []perdure.TaskID // by key
	known   [][]taskRow      // by client and key: the row as last read
}

func (p *taskPlay) next(client, key int, chance *rand.Rand, word string) request {
	r := taskRequest{Key: key, Attempt: p.known[client][key].Attempt, Word: word}
	ends := []perdure.TaskState{perdure.TaskSucceeded, perdure.TaskFailed, perdure.TaskCanceled}
	switch draw := chance.IntN(100); {
	case r.Attempt == 0:
		r.What = create
	case draw < 35:
		r.What = read
	case draw < 60:
		r.What = over
	case draw < 80:
		r.What = cancel
	default:
		r.What, r.To = end, ends[chance.IntN(len(ends))]
	}
	return r
}

func (p *taskPlay) do(ctx context.Context, st store.Store, client int, asked request) (any, error) {
	r := asked.(taskRequest)
	var answer taskAnswer
	var err error
	if r.What == read {
		err = st.View(ctx, func(rd store.Reader) error {
			found, err := rd.Tasks().Get(p.session, p.ids[r.Key])
			answer = taskAnswer{Row: taskOf(found)}
			return err
		})
	} else {
		err = st.InTx(ctx, func(tx store.Tx) (err error) {
			answer, err = p.write(tx, r)
			return err
		})
	}
	if errors.Is(err, perdure.NotFound) {
		return taskAnswer{Refused: perdure.NotFound}, nil
	}
	if err == nil {
		p.known[client][r.Key] = answer.Row
	}
	return answer, err
}

func (p *taskPlay) write(tx store.Tx, r taskRequest) (taskAnswer, error) {
	id := p.ids[r.Key]
	if r.What == create {
		stored, created, err := tx.Tasks().Create(perdure.Task{
			ID: id, Session: p.session, RootSession: p.session, Kind: perdure.KindBackgroundTool, Origin: perdure.OriginSpawned,
			Tool: "build", Spec: perdure.TaskSpec{Tool: "build", Arguments: []byte(`{}`)}, Class: perdure.Pure,
			Lane: perdure.Background, State: perdure.TaskRunning, Attempt: 1, CreatedAt: tx.Now(), UpdatedAt: tx.Now(),
		})
		return taskAnswer{Created: created, Row: taskOf(stored)}, err
	}
	u := perdure.TaskUpdate{Attempt: r.Attempt}
	switch r.What {
	case over:
		u.IncrementAttempt, u.Worker = true, "worker_2"
	case cancel:
		u.Cancel = &perdure.CancelRequest{At: tx.Now(), By: r.Word}
	case end:
		u.State, u.Result = r.To, r.Word
	}
	change, err := tx.Tasks().Update(p.session, id, u)
	return taskAnswer{Answer: change.Answer, Ended: change.Ended, Row: taskOf(change.Task)}, err
}

func taskOf(t perdure.Task) taskRow {
	return taskRow{State: t.State, Attempt: t.Attempt, Result: t.Result, Cancel: t.CancelBy}
}
