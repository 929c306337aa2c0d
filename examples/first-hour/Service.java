// A service with eight threads. Each request appends a line to a journal that one monitor protects,
// and writing takes a while (here: it sleeps).
import java.util.ArrayList;
import java.util.List;

public class Service {
    static class Journal {
        private long lines;

        synchronized void append() throws InterruptedException {
            Thread.sleep(2);
            lines++;
        }
    }

    public static void main(String[] words) throws InterruptedException {
        Journal journal = new Journal();
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < 8; number++) {
            threads.add(new Thread(() -> {
                try {
                    for (int request = 0; request < 200; request++) journal.append();
                } catch (InterruptedException end) {
                    Thread.currentThread().interrupt();
                }
            }, "worker-" + number));
        }
        for (Thread thread : threads) thread.start();
        for (Thread thread : threads) thread.join();
        System.out.println(journal.lines + " lines");
    }
}
