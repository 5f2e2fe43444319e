package storm

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/internal/pgserver"
)

const (
	meanLife  = time.Second             // of a server, from its first answer to the next fault
	maxPause  = 2500 * time.Millisecond // of a SIGSTOP: the server's lease is one second
	restTime  = 2 * time.Minute         // for all work to come to rest
	probeTime = 2 * time.Second         // for an answer to whether it answers
	goneTime  = 5 * time.Second         // for the last processes to end
	judgeTime = 5 * time.Minute         // to read everything at the end
	childTime = time.Minute             // for --effects-from, and for the ledger to open
)

// place is the directory of one run, and what works in it.
type place struct {
	Storm
	dir      string
	outside  string            // the address of the ledger
	addr     string            // of the server
	database string            // URL of the server's; empty: it has a data directory only
	own      *pgserver.Cluster // where it is; nil: somebody else's, or none
	token    string
	log      *os.File
	siege    *chaos.Siege
}

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

// fills reports whether the disk is to be filled.
func (p *place) fills() bool { return slices.Contains(p.Faults, string(chaos.Disk)) }

// makeToken makes the token that the server wants. It stands where perdure serve looks for it, too.
func (p *place) makeToken() error {
	if p.token == "" {
		p.token = "perdure_" + strings.ToLower(rand.Text()+rand.Text())
	}
	if err := os.WriteFile(p.path("data/token"), []byte(p.token+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	return nil
}

// run is the whole run, but for its words.
func (p *place) run(ctx context.Context) (chaos.Report, error) {
	var err error
	if p.log, err = os.Create(p.path("server.log")); err != nil {
		return chaos.Report{}, fmt.Errorf("keep the server's words: %w", err)
	}
	defer p.log.Close()
	undo, err := p.prepareDisk()
	if err != nil {
		return chaos.Report{}, err
	}
	defer undo()
	closeLedger, err := p.openLedger(ctx)
	if err != nil {
		return chaos.Report{}, err
	}
	defer closeLedger()
	far, err := p.Dial(p.addr, p.token, false)
	if err != nil {
		return chaos.Report{}, err
	}
	p.siege = p.newSiege()
	defer p.siege.Abandon()
	witness := &chaos.Witness{}
	if err := p.disturb(ctx, far, witness); err != nil {
		return chaos.Report{}, err
	}
	return p.judge(ctx, far, witness)
}

// newSiege says how the server is disturbed.
func (p *place) newSiege() *chaos.Siege {
	s := &chaos.Siege{
		Kills: p.Kills, Seed: p.Seed, MeanLife: meanLife, MaxPause: maxPause, Command: p.server, Ready: p.ready, Fill: p.fill, Free: p.free, Leave: p.leave, Return: p.comeBack,
		Tell: func(format string, args ...any) {
			fmt.Fprintf(p.Talk, time.Now().Format("15:04:05.000 ")+format+"\n", args...)
		},
	}
	for _, fault := range p.Faults {
		s.Faults = append(s.Faults, chaos.Disturbance(fault))
	}
	return s
}

// disturb lets the sessions work and disturbs the server, until the kills are used up and all work is at rest.
func (p *place) disturb(ctx context.Context, far engine.Engine, witness *chaos.Witness) error {
	mix, err := p.mix(ctx)
	if err != nil {
		return err
	}
	rival, err := p.startRival(ctx)
	if err != nil {
		return err
	}
	defer rival.Abandon()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	driver := chaos.Driver{
		Engine: far, Words: mix.Words, Sessions: p.Sessions, Seed: p.Seed, Rest: restTime, Witness: witness,
		Agent: perdure.Agent{Name: "chaos", Model: "scripted:" + p.path("agent.yaml"), Metadata: map[string]string{"workspace": p.path("work")}},
	}
	enough := make(chan struct{})
	spoken := make(chan error, 1) // one result
	go func() {
		err := driver.Run(ctx, enough)
		if err != nil {
			cancel(err)
		}
		spoken <- err
	}()
	err = p.siege.Run(ctx)
	if err != nil {
		cancel(err)
	} else {
		fmt.Fprintln(p.Talk, "no more faults: waiting for rest")
	}
	close(enough)
	if told := <-spoken; err == nil {
		err = told
	} // else what the sessions say is its echo
	if err == nil && p.Rival {
		err = rival.End(ctx)
	}
	return err
}

// startRival starts the second server of the database, where there is to be one. Nothing disturbs it.
func (p *place) startRival(ctx context.Context) (*chaos.Siege, error) {
	rival := p.newSiege()
	if !p.Rival {
		return rival, nil
	}
	addr, err := p.Addr()
	if err != nil {
		return nil, err
	}
	if err := os.Mkdir(p.path("rival"), 0o700); err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	rival.Kills = 0
	rival.Command = func() *exec.Cmd { return p.serverAt(addr, "rival") }
	rival.Ready = func(ctx context.Context) error { return p.readyAt(ctx, addr) }
	return rival, rival.Run(ctx)
}

// mix starts the server once, undisturbed, to see what it can do, and writes the agent's script.
func (p *place) mix(ctx context.Context) (chaos.Mix, error) {
	if p.Agent != "" {
		script, err := os.ReadFile(p.Agent)
		if err != nil {
			return chaos.Mix{}, fmt.Errorf("read the agent: %w", err)
		}
		return chaos.Mix{Words: []string{"order"}}, os.WriteFile(p.path("agent.yaml"), script, 0o600)
	}
	calm := p.newSiege()
	calm.Kills = 0
	defer calm.Abandon()
	if err := calm.Run(ctx); err != nil {
		return chaos.Mix{}, err
	}
	eng, err := p.Dial(p.addr, p.token, true)
	if err != nil {
		return chaos.Mix{}, err
	}
	tools, err := eng.Tools(ctx)
	if err != nil {
		return chaos.Mix{}, fmt.Errorf("ask the server for its tools: %w", err)
	}
	mix, err := chaos.Mixed(tools, quote(p.Program)+" chaos-part effect --ledger "+quote(p.outside), p.Tools)
	if err == nil {
		err = os.WriteFile(p.path("agent.yaml"), mix.Script, 0o600)
	}
	return mix, errors.Join(err, calm.End(ctx))
}

// server makes one start of the server.
func (p *place) server() *exec.Cmd { return p.serverAt(p.addr, "data") }

// serverAt makes one start of a server with an address and a data directory.
func (p *place) serverAt(addr, data string) *exec.Cmd {
	argv := p.Command
	if len(argv) == 0 {
		argv = []string{p.Program, "chaos-part", "serve", "--sabotage", p.Sabotage}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(p.environ(), "PERDURE_LISTEN="+addr, "PERDURE_ADDR="+addr, "PERDURE_TOKEN="+p.token, "PERDURE_DATA="+p.path(data))
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = chaos.Apart()
	if _, err := cmd.StdinPipe(); err != nil { // open as long as this process lives: the server ends with it
		fmt.Fprintf(p.Talk, "chaos: %v\n", err)
	}
	return cmd
}

// environ is the environment of what is started here, without what would lead it to another server.
func (p *place) environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(pair string) bool { return strings.HasPrefix(pair, "PERDURE_") })
	if p.database != "" {
		env = append(env, "PERDURE_DATABASE="+p.database)
	}
	return append(env, chaos.LedgerVariable+"="+p.outside)
}

// ready asks the server anything.
func (p *place) ready(ctx context.Context) error { return p.readyAt(ctx, p.addr) }

func (p *place) readyAt(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	eng, err := p.Dial(addr, p.token, true)
	if err == nil {
		_, err = eng.Sessions(ctx, 1)
	}
	return err
}

// openLedger starts the ledger, and returns what ends it.
func (p *place) openLedger(ctx context.Context) (func(), error) {
	cmd := exec.Command(p.Program, "chaos-part", "ledger", p.path("ledger.jsonl"))
	cmd.Env, cmd.Stderr, cmd.SysProcAttr = p.environ(), p.Talk, chaos.Apart()
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the ledger: %w", err)
	}
	ended := func() {
		_ = in.Close() // it ends by this
		_ = cmd.Wait()
	}
	opened := make(chan error, 1) // one line
	go func() {
		line, err := bufio.NewReader(out).ReadString('\n')
		p.outside = strings.TrimSpace(line)
		opened <- err
		_, _ = io.Copy(io.Discard, out)
	}()
	select {
	case err = <-opened:
	case <-time.After(childTime):
		err = fmt.Errorf("not within %s", childTime)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		ended()
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return ended, nil
}
