package local_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// TestStopsWhileItReadsBack takes a run over, with its commit in doubt, and then the store stops
// for good: the start reads back what it committed until it is stopped, and then Run returns,
// without waiting for the store.
func TestStopsWhileItReadsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		entered := make(chan struct{}, 9)
		hold := tool.NewBackground(tool.Spec{Name: "hold", Description: "x", Class: perdure.Idempotent}, func(ctx context.Context, _ words, _ tool.Env) (answer, error) {
			entered <- struct{}{}
			<-ctx.Done()
			return nil, context.Cause(ctx)
		})
		ledger, script := memory.New(memory.Config{}), strings.ReplaceAll(spawnOne, "bg_note", "hold")
		a := openShop(t, script, local.Config{Store: ledger}, hold)
		a.run()
		a.session()
		a.say("go")
		<-entered
		a.stop()
		<-a.done

		b := openShop(t, script, local.Config{Store: ledger}, hold)
		judge, hit := once(forgets, func(f []perdure.Fact) bool { return has(f, any1[perdure.TaskReattached]) })
		b.st.set(judge)
		var asked atomic.Int32
		b.st.setView(func() bool {
			select {
			case <-hit:
				asked.Add(1)
				return true
			default:
				return false
			}
		})
		b.run()
		<-hit
		<-time.After(20 * time.Second)
		if len(b.done) > 0 || asked.Load() < 3 {
			t.Fatalf("it gave up while it could continue: %d reads", asked.Load())
		}
		b.stop()
		select {
		case <-b.done:
		case <-time.After(time.Hour):
			t.Error("Run does not return: it reads until the store answers")
			b.st.setView(nil)
			<-b.done
		}
	})
}
