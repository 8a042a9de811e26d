// The page with data of its own.

import {start} from './page.js';

start();
