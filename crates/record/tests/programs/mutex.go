// Goroutines that take turns at one mutex.
package main

import (
    "fmt"
    "sync"
    "time"
)

type ledger struct {
    mutex sync.Mutex
    turns int
}

//go:noinline
func (l *ledger) book() {
    l.mutex.Lock()
    l.turns++
    time.Sleep(200 * time.Microsecond)
    l.mutex.Unlock()
}

func main() {
    var one ledger
    var all sync.WaitGroup
    for worker := 0; worker < 4; worker++ {
        all.Add(1)
        go func() {
            defer all.Done()
            for turn := 0; turn < 200; turn++ {
                one.book()
            }
        }()
    }
    all.Wait()
    fmt.Println(one.turns)
}
