package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// startProfiles begins the CPU profile of an experiment; stop ends it and writes those of mutexes, waits and allocations
// beside it. With no folder it does nothing. The latter three grow over the experiments of a run: use -only.
func startProfiles(dir, name string) (stop func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder for profiles: %w", err)
	}
	f, err := os.Create(filepath.Join(dir, name+".cpu.pprof"))
	if err != nil {
		return nil, fmt.Errorf("begin a profile: %w", err)
	}
	runtime.SetMutexProfileFraction(10)
	runtime.SetBlockProfileRate(100_000) // nanoseconds of waiting a sample
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(fmt.Errorf("begin a profile: %w", err), f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		errs := []error{f.Close()}
		for _, kind := range []string{"mutex", "block", "allocs"} {
			errs = append(errs, writeProfile(filepath.Join(dir, name+"."+kind+".pprof"), kind))
		}
		return errors.Join(errs...)
	}, nil
}

func writeProfile(path, kind string) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write a profile: %w", err)
	}
	return errors.Join(pprof.Lookup(kind).WriteTo(f, 0), f.Close())
}
