package local_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/scripted"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// seesImage is a model that reports its second request, and the first one with an image.
type seesImage struct {
	model.Model
	second, image func()

	mu sync.Mutex
	n  int // guarded by mu
}

func (m *seesImage) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	m.mu.Lock()
	if m.n++; m.n == 2 {
		m.second()
	}
	m.mu.Unlock()
	for _, message := range req.Messages {
		if slices.ContainsFunc(message.Parts, func(p perdure.Part) bool { return p.Type == perdure.PartImage && p.Untrusted }) {
			m.image()
		}
	}
	return m.Model.Stream(ctx, req)
}

// TestDetachedImage: the image of a call that left its turn reaches the model with the notification
// of its end.
func TestDetachedImage(t *testing.T) {
	t.Parallel()
	script, err := scripted.Parse("image", []byte("steps: [{calls: [{name: shot, args: {}}]}, {text: on, repeat: true}]"))
	if err != nil {
		t.Fatal(err)
	}
	released, seen := make(chan struct{}), make(chan struct{})
	asked := &seesImage{Model: script, second: sync.OnceFunc(func() { close(released) }), image: sync.OnceFunc(func() { close(seen) })}
	shot := tool.New(tool.Spec{Name: "shot", Description: "Makes a picture.", Class: perdure.Pure, SoftBudget: time.Millisecond},
		func(ctx context.Context, _ struct{}, _ tool.Env) (tool.Result, error) {
			select {
			case <-released:
			case <-ctx.Done():
			}
			return tool.Success("made").WithImages(perdure.Image{MediaType: "image/png", Base64: "iVBORw0KGgo="}), nil
		})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	eng, err := local.Open(ctx, local.Config{Store: memory.New(memory.Config{}), Model: asked, Tools: tool.NewRegistry(shot)})
	if err != nil {
		t.Fatal(err)
	}
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1) // of one Run
	go func() { ended <- eng.Run(work) }()
	s, err := eng.Sessions().Create(ctx, perdure.Agent{})
	if err == nil {
		_, err = eng.Send(ctx, s.ID, perdure.Text("go"))
	}
	if err != nil {
		t.Error(err)
	}
	select {
	case <-seen:
	case <-ctx.Done():
		t.Error("no request has the image")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
