// Small servers: each goroutine makes passes until the time is up.
// usage: programs MODE GOROUTINES SECONDS; prints the passes per second.
package main

import (
    "fmt"
    "os"
    "strconv"
    "sync"
    "sync/atomic"
    "time"
)

func main() {
    number, _ := strconv.Atoi(os.Args[2])
    seconds, _ := strconv.ParseFloat(os.Args[3], 64)
    var over atomic.Bool
    var passes atomic.Int64
    var lock sync.Mutex
    users := map[int64]int64{}
    connections := make(chan int, 2)
    modes := map[string]func(){
        // Two connections; a query takes 5 ms.
        "connections": func() {
            connections <- 1
            time.Sleep(5 * time.Millisecond)
            <-connections
            time.Sleep(time.Millisecond)
        },
        // A table of users under one mutex, and 2 ms for the network.
        "handler": func() {
            lock.Lock()
            users[passes.Load()%1000]++
            lock.Unlock()
            time.Sleep(2 * time.Millisecond)
        },
    }
    pass := modes[os.Args[1]]
    begin := time.Now()
    var group sync.WaitGroup
    for range number {
        group.Add(1)
        go func() {
            for !over.Load() {
                pass()
                passes.Add(1)
            }
            group.Done()
        }()
    }
    time.Sleep(time.Duration(seconds * 1e9))
    over.Store(true)
    group.Wait()
    fmt.Println(float64(passes.Load()) / time.Since(begin).Seconds())
}
