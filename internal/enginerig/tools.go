package enginerig

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/background"
	"github.com/perdure/perdure/tool/schedule"
	"github.com/perdure/perdure/tool/subagent"
)

// textArgs are the arguments of most tools.
type textArgs struct {
	Text string `json:"text,omitempty"`
}

type answer = map[string]string

// work is the function of a tool.
type work = func(context.Context, textArgs, tool.Env) (answer, error)

var errSecret = errors.New("secret cause")

// Tools returns the tools that enginetest.Setup names, the background, subagent and schedule tools,
// and more.
func (o *Outside) Tools(more ...tool.Tool) *tool.Registry {
	all := append(append(append(background.Tools(background.Config{}), subagent.Tools()...), schedule.Tools()...),
		o.foreground()...)
	all = append(append(all, o.background()...), o.dialogTools()...)
	return tool.NewRegistry(append(all, more...)...)
}

// Spec returns the spec of a fixture.
func Spec(name string, class perdure.EffectClass) tool.Spec {
	return tool.Spec{Name: name, Description: "A fixture.", Class: class}
}

// held returns a function that waits for its release.
func (o *Outside) held(name string, effect bool) work {
	return func(ctx context.Context, in textArgs, env tool.Env) (answer, error) {
		if effect {
			o.Effect(name, env.Call.Key)
		}
		return answer{"held": in.Text}, o.Hold(ctx, name)
	}
}

// done returns a function with one effect.
func (o *Outside) done(name, verb string) work {
	return func(_ context.Context, in textArgs, env tool.Env) (answer, error) {
		o.Effect(name, env.Call.Key)
		return answer{verb: in.Text}, nil
	}
}

// foreground returns the tools that run in the turn.
func (o *Outside) foreground() []tool.Tool {
	say := func(_ context.Context, in textArgs, _ tool.Env) (answer, error) { return answer{"said": in.Text}, nil }
	serial, needs := Spec("serial", perdure.Pure), Spec("needs", perdure.AtMostOnce)
	client := Spec("client", perdure.AtMostOnce)
	serial.Concurrency = "one"
	client.Policy, needs.Policy = tool.PolicyClientSide, tool.PolicyRequiresApproval
	return append([]tool.Tool{
		tool.New(Spec("echo", perdure.Pure), say),
		tool.New(serial, say),
		tool.New(Spec("note", perdure.Idempotent), o.done("note", "noted")),
		tool.New(Spec("charge", perdure.AtMostOnce), o.done("charge", "charged")),
		tool.New(needs, o.done("needs", "did")),
		tool.New(client, func(context.Context, textArgs, tool.Env) (answer, error) { return nil, errSecret }),
		tool.New(Spec("hold", perdure.Pure), o.held("hold", false)),
		tool.New(Spec("hold_note", perdure.Idempotent), o.held("hold_note", true)),
		tool.New(Spec("hold_charge", perdure.AtMostOnce), o.held("hold_charge", true)),
		tool.New(Spec("hold_stubborn", perdure.Pure), func(ctx context.Context, in textArgs, _ tool.Env) (answer, error) {
			return answer{"held": in.Text}, o.Hold(context.WithoutCancel(ctx), "hold_stubborn")
		}),
		tool.New(Spec("fail", perdure.Pure),
			func(context.Context, textArgs, tool.Env) (answer, error) { return nil, tool.Errorf("boom") }),
		tool.New(Spec("break", perdure.Pure),
			func(context.Context, textArgs, tool.Env) (answer, error) { return nil, errSecret }),
		tool.New(Spec("panic", perdure.Pure),
			func(context.Context, textArgs, tool.Env) (answer, error) { panic("secret cause") }),
		tool.New(Spec("read_log", perdure.Pure), readLog),
		tool.New(Spec("stand", perdure.Idempotent), registerResources),
		&reconcilingTool{o: o, Tool: tool.New(Spec("guarded", perdure.AtMostOnce), o.held("guarded", true))},
	}, o.timed()...)
}

// registerResources registers two resources of its session, one of them leased.
func registerResources(ctx context.Context, _ textArgs, env tool.Env) (answer, error) {
	_, err := env.Resources.Register(ctx, tool.Resource{ID: "box/1 ü?", Kind: "sandbox", Name: "a box"})
	if err == nil {
		_, err = env.Leases.Lease(ctx, tool.LeaseRequest{
			Provider: "cloud", Type: "machine", ExternalID: string(env.Call.Session), Duration: time.Hour,
		})
	}
	return answer{"status": "ok"}, err
}

// timed returns the tools with timeouts of their own.
func (o *Outside) timed() []tool.Tool {
	late, silent := Spec("hold_late", perdure.Pure), Spec("hold_silent", perdure.Pure)
	clientLate := Spec("client_late", perdure.AtMostOnce)
	late.Deadline, late.SoftBudget = shortDeadline, shortBudget
	silent.Stall = shortBudget
	clientLate.Policy, clientLate.Deadline, clientLate.SoftBudget = tool.PolicyClientSide, shortDeadline, tool.Never
	return []tool.Tool{
		tool.New(late, o.held("hold_late", false)),
		tool.New(silent, o.held("hold_silent", false)),
		tool.New(clientLate, func(context.Context, textArgs, tool.Env) (answer, error) { return nil, errSecret }),
		&connectionTool{tool.New(Spec("connect", perdure.Idempotent),
			func(context.Context, textArgs, tool.Env) (answer, error) { return nil, nil })},
		&pathTool{Tool: tool.New(Spec("reads", perdure.Pure),
			func(_ context.Context, in textArgs, _ tool.Env) (answer, error) { return answer{"read": in.Text}, nil })},
		tool.New(Spec("stream_hold", perdure.Pure), func(ctx context.Context, _ textArgs, env tool.Env) (answer, error) {
			for _, line := range []string{"one\n", "two\n", "three\n"} {
				_ = env.Sink.Output("stdout", []byte(line))
			}
			err := o.Hold(ctx, "stream_hold")
			_ = env.Sink.Output("stdout", []byte("four\n"))
			return answer{"status": "ok"}, err
		}),
	}
}

// background returns the tools that can be the target of a spawn.
func (o *Outside) background() []tool.Tool {
	held := func(name string, effect bool) work {
		return func(ctx context.Context, _ textArgs, env tool.Env) (answer, error) {
			_ = env.Sink.Output("stdout", []byte("working\n"))
			if effect {
				o.Effect(name, env.Call.Key)
			}
			return answer{"status": "ok"}, o.Hold(ctx, name)
		}
	}
	once := func(name string) work {
		return func(_ context.Context, _ textArgs, env tool.Env) (answer, error) {
			o.Effect(name, env.Call.Key)
			return answer{"status": "ok"}, nil
		}
	}
	print := func(lines ...string) work {
		return func(_ context.Context, _ textArgs, env tool.Env) (answer, error) {
			for _, line := range lines {
				_ = env.Sink.Output("stdout", []byte(line))
			}
			return answer{"status": "ok"}, nil
		}
	}
	needs := Spec("bg_needs", perdure.AtMostOnce)
	needs.Policy = tool.PolicyRequiresApproval
	flood := strings.Repeat("x", 100_000)
	return []tool.Tool{
		tool.NewBackground(Spec("stream", perdure.Pure), print("one\n", "two\n", "three\n")),
		tool.NewBackground(Spec("flood", perdure.Pure), print(flood, flood, flood, flood, flood)),
		tool.NewBackground(Spec("bg_fail", perdure.Pure),
			func(_ context.Context, _ textArgs, env tool.Env) (answer, error) {
				_ = env.Sink.Output("stderr", []byte("background failed\n"))
				return nil, tool.Errorf("boom")
			}),
		tool.NewBackground(Spec("bg_break", perdure.Pure),
			func(context.Context, textArgs, tool.Env) (answer, error) { return nil, errSecret }),
		tool.NewBackground(Spec("bg_note", perdure.Idempotent), once("bg_note")),
		tool.NewBackground(Spec("bg_once", perdure.AtMostOnce), once("bg_once")),
		tool.NewBackground(needs, once("bg_needs")),
		tool.NewBackground(Spec("bg_hold", perdure.Idempotent), held("bg_hold", false)),
		tool.NewBackground(Spec("bg_charge", perdure.AtMostOnce), held("bg_charge", true)),
		tool.NewBackground(Spec("bg_stubborn", perdure.Pure),
			func(ctx context.Context, _ textArgs, _ tool.Env) (answer, error) {
				return answer{"status": "ok"}, o.Hold(context.WithoutCancel(ctx), "bg_stubborn")
			}),
		tool.NewBackground(Spec("bg_late", perdure.Pure), o.late),
	}
}

// late ignores its end, and then writes whatever a tool can write. "bg_late_written" is entered
// after that.
func (o *Outside) late(ctx context.Context, _ textArgs, env tool.Env) (answer, error) {
	ctx = context.WithoutCancel(ctx)
	if err := o.Hold(ctx, "bg_late"); err != nil {
		return nil, err
	}
	_, wrote := env.Files.Write(ctx, tool.FileWrite{Path: "/late.txt", Content: []byte("late")})
	_, spawned := env.Tasks.Spawn(ctx, tool.SpawnRequest{Tool: "bg_once", Args: []byte(`{"text": "late"}`)})
	_, started := env.Agents.Start(ctx, tool.SubagentRequest{Name: "late", Prompt: "late"})
	for what, err := range map[string]error{"file": wrote, "run": spawned, "subagent": started} {
		if err == nil {
			o.Effect("late_"+what, env.Call.Key)
		}
	}
	return answer{"status": "ok"}, o.Hold(ctx, "bg_late_written")
}

// readLog returns the length and the end of a file.
func readLog(ctx context.Context, in struct {
	Path string `json:"path"`
}, env tool.Env) (map[string]any, error) {
	file, err := env.Files.Read(ctx, in.Path)
	if err != nil {
		return nil, err
	}
	text := string(file.Content)
	return map[string]any{"chars": len(text), "end": text[max(len(text)-100, 0):]}, nil
}
