package linearizability

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// TestR17Spawns lets clients claim, register, repair, settle and read the same handles of subagents
// (SA3).
func TestR17Spawns(t *testing.T) {
	t.Parallel()
	check(t, spawns(), histories, operations)
}

// The operations on a handle besides claim, settle and read.
const (
	register = "register"
	repair   = "repair"
)

// spawnRow is a handle in the model. The zero value was never claimed.
type spawnRow struct {
	State   store.SpawnState
	Token   perdure.Token
	Child   perdure.SessionID
	Repairs int
	Status  perdure.TaskState
	Result  string
}

// spawnRequest is one operation on a handle.
type spawnRequest struct {
	Key    int
	What   string
	Token  perdure.Token
	Child  perdure.SessionID
	Status perdure.TaskState
	Word   string // settle: the result
}

func (r spawnRequest) key() int    { return r.Key }
func (r spawnRequest) reads() bool { return r.What == read }

// spawnAnswer is the result of an operation.
type spawnAnswer struct {
	Outcome store.SpawnOutcome // of a claim
	Row     spawnRow           // claim, read
	Repairs int                // repair
	Refused perdure.Kind
}

func (a spawnAnswer) yes() bool { return a.Refused == "" }

// spawns is the game of spawn handles, with one row for each key.
func spawns() game {
	return game{
		name: "spawns",
		model: porcupine.Model{
			Partition: partition, Init: func() any { return spawnRow{} }, DescribeOperation: describe,
			Step: func(state, input, output any) (bool, any) {
				want, next := state.(spawnRow).after(input.(spawnRequest))
				got, known := output.(spawnAnswer)
				return !known || got == want, next
			},
		},
		start: func(session perdure.SessionID, keys int) play {
			p := &spawnPlay{session: session}
			for range clients {
				p.known = append(p.known, make([]spawnRow, keys))
				p.last = append(p.last, spawnRequest{})
			}
			return p
		},
	}
}

// after is a second implementation of the rules of handles.
func (row spawnRow) after(r spawnRequest) (spawnAnswer, spawnRow) {
	lost := spawnAnswer{Refused: perdure.Lost}
	switch owned := row.State != "" && row.Token == r.Token; {
	case r.What == read && row.State == "":
		return spawnAnswer{Refused: perdure.NotFound}, row
	case r.What == read:
		return spawnAnswer{Row: row}, row
	case r.What == claim:
		return row.claim(r)
	case r.What == register && owned && row.State == store.SpawnPending:
		row.State, row.Child = store.SpawnRunning, r.Child
	case r.What == register && owned && row.State == store.SpawnRunning && row.Child == r.Child: // again
	case r.What == repair && owned && row.State == store.SpawnRunning:
		row.Repairs++
		return spawnAnswer{Repairs: row.Repairs}, row
	case r.What == settle && owned && row.State != store.SpawnSettled:
		row.State, row.Status, row.Result = store.SpawnSettled, r.Status, r.Word
	case r.What == settle && owned && row.Status == r.Status && row.Result == r.Word: // again
	default:
		return lost, row
	}
	return spawnAnswer{}, row
}

func (row spawnRow) claim(r spawnRequest) (spawnAnswer, spawnRow) {
	outcome := store.SpawnClaimedPending
	switch {
	case row.State == "":
		outcome, row = store.SpawnClaimed, spawnRow{State: store.SpawnPending, Token: r.Token}
	case row.State == store.SpawnSettled:
		outcome = store.SpawnAlreadySettled
	case row.State == store.SpawnRunning:
		outcome = store.SpawnAlreadyRunning
	case row.Token == r.Token:
		outcome = store.SpawnClaimed
	}
	return spawnAnswer{Outcome: outcome, Row: row}, row
}

// spawnPlay is one history of handles.
type spawnPlay struct {
	session perdure.SessionID
	known   [][]spawnRow   // by client and key: the row as last read
	last    []spawnRequest // by client: its last operation, to be repeated
}

func (p *spawnPlay) next(client, key int, chance *rand.Rand, word string) request {
	row := p.known[client][key]
	r := spawnRequest{Key: key, Token: row.Token}
	if chance.IntN(5) == 0 { // another client's
		r.Token = perdure.Token(word)
	}
	ends := []perdure.TaskState{perdure.TaskSucceeded, perdure.TaskFailed}
	switch draw := chance.IntN(100); {
	case draw < 15 && p.last[client].What != "":
		return p.last[client]
	case draw < 30 || row.State == "":
		r.What, r.Token = claim, perdure.Token(word)
	case draw < 50:
		r.What, r.Token = read, ""
	case draw < 70:
		r.What, r.Child = register, perdure.SessionID(fmt.Sprintf("%s_%d_%s", p.session, key, word))
	case draw < 90:
		r.What = repair
	default:
		r.What, r.Status, r.Word = settle, ends[chance.IntN(len(ends))], word
	}
	p.last[client] = r
	return r
}

func (p *spawnPlay) do(ctx context.Context, st store.Store, client int, asked request) (any, error) {
	r := asked.(spawnRequest)
	key := perdure.CallKey{Session: p.session, Call: perdure.CallID(fmt.Sprintf("spawn %d", r.Key))}
	var answer spawnAnswer
	var err error
	if r.What == read {
		err = st.View(ctx, func(rd store.Reader) error {
			found, err := rd.Spawns().Get(key)
			answer = spawnAnswer{Row: handleOf(found)}
			return err
		})
	} else {
		err = st.InTx(ctx, func(tx store.Tx) (err error) {
			answer, err = p.write(tx, key, r)
			return err
		})
	}
	for _, kind := range []perdure.Kind{perdure.NotFound, perdure.Lost} {
		if errors.Is(err, kind) {
			return spawnAnswer{Refused: kind}, nil
		}
	}
	if err == nil && answer.Row.State != "" {
		p.known[client][r.Key] = answer.Row
	}
	return answer, err
}

func (p *spawnPlay) write(tx store.Tx, key perdure.CallKey, r spawnRequest) (answer spawnAnswer, err error) {
	switch r.What {
	case claim:
		outcome, row, err := tx.Spawns().Claim(store.Spawn{Key: key, Root: p.session, Depth: 1, Prompt: "work", Token: r.Token})
		return spawnAnswer{Outcome: outcome, Row: handleOf(row)}, err
	case register:
		return answer, tx.Spawns().RegisterChild(key, r.Token, r.Child)
	case repair:
		answer.Repairs, err = tx.Spawns().Repair(key, r.Token)
		return answer, err
	}
	return answer, tx.Spawns().Settle(key, r.Token, r.Status, []byte(`"`+r.Word+`"`))
}

func handleOf(s store.Spawn) spawnRow {
	row := spawnRow{State: s.State, Token: s.Token, Child: s.Child, Repairs: s.Repairs, Status: s.Status}
	if len(s.Result) > 0 {
		_ = perdure.DecodeJSON(s.Result, &row.Result) // another shape is another result, and so detected
	}
	return row
}
