package main

import (
	"fmt"
	"io"
)

const mib = 1 << 20

// figures are the results of the section clients. Lags are those of the reading clients.
// docs/reference/figures.md describes them.
type figures struct {
	Version      int     `json:"version"` // of this format: 1
	Clients      int     `json:"clients"`
	Stalled      int     `json:"stalled"`
	Slow         int     `json:"slow"`
	Seconds      float64 `json:"seconds"`
	Sessions     int     `json:"sessions"`
	Events       int64   `json:"events"`     // written while the sessions were followed
	Received     int     `json:"received"`   // by all reading clients
	Reconnects   int     `json:"reconnects"` // of these clients
	Lost         int64   `json:"lost"`
	Twice        int64   `json:"twice"`
	LagP50       float64 `json:"lag_p50_us"`
	LagP99       float64 `json:"lag_p99_us"`
	BareLagP50   float64 `json:"bare_lag_p50_us"` // 0: not measured
	BareLagP99   float64 `json:"bare_lag_p99_us"`
	LagP99Ratio  float64 `json:"lag_p99_ratio"` // relative to the bare server; 0: not measured
	StalledCut   int     `json:"stalled_cut"`
	CutAfterP50  float64 `json:"cut_after_p50_us"` // 0: none was cut
	CutAfterMax  float64 `json:"cut_after_max_us"`
	SlowCut      int     `json:"slow_cut"`
	SlowCutMax   float64 `json:"slow_cut_after_max_us"`
	ServerBefore int64   `json:"server_before_bytes"` // resident memory; 0: unknown
	ServerAlone  int64   `json:"server_alone_bytes"`  // maximum while the sessions worked without clients
	ServerDuring int64   `json:"server_during_bytes"` // maximum
	ServerAfter  int64   `json:"server_after_bytes"`
	LiveAlone    int64   `json:"live_alone_bytes"` // objects and stacks in use after a collection, median; 0: none
	LiveDuring   int64   `json:"live_during_bytes"`
}

func (f *figures) print(w io.Writer) {
	fmt.Fprintf(w, "clients    %d, of which %d never read and %d read a byte a second\n", f.Clients, f.Stalled, f.Slow)
	fmt.Fprintf(w, "events     %d of %d sessions in %.1f s, %d received over %d reconnects, %d lost, %d duplicated\n",
		f.Events, f.Sessions, f.Seconds, f.Received, f.Reconnects, f.Lost, f.Twice)
	fmt.Fprintf(w, "lag        p50 %.1f ms, p99 %.1f ms (goal 250)\n", f.LagP50/1000, f.LagP99/1000)
	if f.BareLagP99 > 0 {
		fmt.Fprintf(w, "bare       p50 %.1f ms, p99 %.1f ms on net/http alone: p99 ratio %.2f\n", f.BareLagP50/1000,
			f.BareLagP99/1000, f.LagP99Ratio)
	}
	fmt.Fprintf(w, "cut        %d of %d that never read, after p50 %.1f s, max %.1f s (goal 15); %d of %d slow ones, after max %.1f s\n",
		f.StalledCut, f.Stalled, f.CutAfterP50/1e6, f.CutAfterMax/1e6, f.SlowCut, f.Slow, f.SlowCutMax/1e6)
	fmt.Fprintf(w, "server     %.1f MiB before, %.1f MiB at work without clients, %.1f MiB at most with them: %+.1f MiB (goal 61, which are 64 MB); %.1f MiB after\n",
		float64(f.ServerBefore)/mib, float64(f.ServerAlone)/mib, float64(f.ServerDuring)/mib,
		float64(f.ServerDuring-f.ServerAlone)/mib, float64(f.ServerAfter)/mib)
	fmt.Fprintf(w, "           in use after a collection %.0f MiB without clients, %.0f MiB with them: %.1f KiB per client\n",
		float64(f.LiveAlone)/mib, float64(f.LiveDuring)/mib, float64(f.LiveDuring-f.LiveAlone)/1024/float64(f.Clients))
}
